// eval/bleu_rouge.cpp: BLEU-4 and ROUGE-L of ngram_metrics.h.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "eval/internal/ngrams.h"
#include "eval/ngram_metrics.h"

namespace caption::eval {
namespace {

std::int64_t longest_common_subsequence(const WordIds& a, const WordIds& b) {
  // row[j] is the length for the words of `a` so far and the first j words of `b`.
  std::vector<std::int64_t> row(b.size() + 1, 0);
  for (const std::int32_t word : a) {
    std::int64_t diagonal = 0;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::int64_t above = row[j];
      row[j] = word == b[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

WordIds WordTable::ids(const Tokens& tokens) {
  WordIds out;
  out.reserve(tokens.size());
  for (const std::string& token : tokens) {
    out.push_back(ids_.try_emplace(token, static_cast<std::int32_t>(ids_.size())).first->second);
  }
  return out;
}

BleuStatistics bleu_statistics(const WordIds& hypothesis, std::span<const WordIds> references) {
  BleuStatistics statistics;
  const auto length = static_cast<std::int64_t>(hypothesis.size());
  statistics.hypothesis_length = length;
  const std::vector<NgramCount> guessed = count_ngrams(hypothesis);
  std::vector<std::int64_t> correct(guessed.size(), 0);  // clipped, maximum over the references
  bool is_first = true;
  for (const WordIds& reference : references) {
    for_each_common(
        guessed, count_ngrams(reference), [&](const NgramCount& mine, const NgramCount& theirs) {
          std::int64_t& most = correct[static_cast<std::size_t>(&mine - guessed.data())];
          most = std::max(most, std::min(mine.count, theirs.count));
        });
    const auto candidate = static_cast<std::int64_t>(reference.size());
    const std::int64_t gap = std::abs(candidate - length);
    const std::int64_t best_gap = std::abs(statistics.reference_length - length);
    if (is_first || gap < best_gap ||
        (gap == best_gap && candidate < statistics.reference_length)) {
      statistics.reference_length = candidate;
    }
    is_first = false;
  }
  for (std::size_t n = 0; n < kMaxOrder; ++n) {
    statistics.num_guessed[n] = std::max<std::int64_t>(0, length - static_cast<std::int64_t>(n));
  }
  for (std::size_t i = 0; i < guessed.size(); ++i) {
    statistics.num_correct[order_of(guessed[i].ngram) - 1] += correct[i];
  }
  return statistics;
}

double bleu4(const BleuStatistics& statistics) {
  constexpr double kTiny = 1e-15;  // avoids a product of 0 when an order has no match
  constexpr double kSmall = 1e-9;
  double product = 1.0;
  for (std::size_t n = 0; n < kMaxOrder; ++n) {
    product *= (static_cast<double>(statistics.num_correct[n]) + kTiny) /
               (static_cast<double>(statistics.num_guessed[n]) + kSmall);
  }
  const double score = std::pow(product, 1.0 / static_cast<double>(kMaxOrder));
  const double ratio = (static_cast<double>(statistics.hypothesis_length) + kTiny) /
                       (static_cast<double>(statistics.reference_length) + kSmall);
  return ratio < 1.0 ? score * std::exp(1.0 - 1.0 / ratio) : score;
}

double rouge_l(const WordIds& hypothesis, std::span<const WordIds> references) {
  constexpr double kBeta = 1.2;
  double precision = 0.0;
  double recall = 0.0;
  for (const WordIds& reference : references) {
    if (hypothesis.empty() || reference.empty()) continue;
    const auto lcs = static_cast<double>(longest_common_subsequence(hypothesis, reference));
    precision = std::max(precision, lcs / static_cast<double>(hypothesis.size()));
    recall = std::max(recall, lcs / static_cast<double>(reference.size()));
  }
  if (precision == 0.0 || recall == 0.0) return 0.0;
  return (1.0 + kBeta * kBeta) * precision * recall / (recall + kBeta * kBeta * precision);
}

}  // namespace caption::eval
