// eval/cider_d.cpp: CIDEr-D of ngram_metrics.h.
#include <cmath>

#include "eval/internal/ngrams.h"
#include "eval/ngram_metrics.h"

namespace caption::eval {
namespace {

struct NgramWeight {
  Ngram ngram;
  double weight;
};

// The tf-idf weights of one sentence, ascending by n-gram, so that sums have a fixed order.
struct WeightedNgrams {
  std::vector<NgramWeight> weights;
  std::array<double, kMaxOrder> norms{};
  double length = 0;  // number of bigrams, as in the COCO toolkit
};

struct DocumentCount {
  std::int32_t frequency = 0;
  std::int32_t last_segment = -1;  // the last segment that was counted
};

}  // namespace

struct CiderD::State {
  NgramMap<DocumentCount> documents;
  double log_num_segments = 0;

  WeightedNgrams weigh(const WordIds& words) const {
    WeightedNgrams out;
    for (const auto& [ngram, count] : count_ngrams(words)) {
      const auto entry = documents.find(ngram);
      const double frequency =
          entry == documents.end() ? 1.0 : static_cast<double>(entry->second.frequency);
      const double weight = static_cast<double>(count) * (log_num_segments - std::log(frequency));
      const std::size_t n = order_of(ngram) - 1;
      out.weights.push_back({ngram, weight});
      out.norms[n] += weight * weight;
      if (n == 1) out.length += static_cast<double>(count);
    }
    for (double& norm : out.norms) norm = std::sqrt(norm);
    return out;
  }
};

CiderD::CiderD(std::span<const std::vector<WordIds>> references)
    : state_(std::make_unique<State>()) {
  state_->log_num_segments = std::log(static_cast<double>(references.size()));
  std::size_t num_words = 0;
  for (const std::vector<WordIds>& segment : references) {
    for (const WordIds& reference : segment) num_words += reference.size();
  }
  state_->documents.reserve(num_words * kMaxOrder);  // avoids repeated rehashing
  for (std::size_t i = 0; i < references.size(); ++i) {
    const auto segment = static_cast<std::int32_t>(i);
    for (const WordIds& reference : references[i]) {
      for_each_ngram(reference, [&](const Ngram& ngram) {
        DocumentCount& document = state_->documents[ngram];
        if (document.last_segment == segment) return;
        document.last_segment = segment;
        ++document.frequency;
      });
    }
  }
}

CiderD::~CiderD() = default;

double CiderD::score(const WordIds& hypothesis, std::span<const WordIds> references) const {
  constexpr double kSigma = 6.0;
  if (references.empty()) return 0.0;
  const WeightedNgrams h = state_->weigh(hypothesis);
  double total = 0.0;
  for (const WordIds& reference : references) {
    const WeightedNgrams r = state_->weigh(reference);
    std::array<double, kMaxOrder> values{};
    for_each_common(h.weights, r.weights, [&](const NgramWeight& mine, const NgramWeight& theirs) {
      values[order_of(mine.ngram) - 1] += std::min(mine.weight, theirs.weight) * theirs.weight;
    });
    const double delta = h.length - r.length;
    const double penalty = std::exp(-(delta * delta) / (2.0 * kSigma * kSigma));
    for (std::size_t n = 0; n < kMaxOrder; ++n) {
      const double norm = h.norms[n] * r.norms[n];
      total += (norm == 0.0 ? values[n] : values[n] / norm) * penalty;
    }
  }
  return 10.0 * total / static_cast<double>(kMaxOrder) / static_cast<double>(references.size());
}

}  // namespace caption::eval
