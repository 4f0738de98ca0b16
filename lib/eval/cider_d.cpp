// CIDEr-D: see ngram_metrics.h.
#include <cmath>

#include "eval/internal/ngrams.h"
#include "eval/ngram_metrics.h"

namespace caption::eval {
namespace {

// tf-idf weights of one sentence, in the order its n-grams first appear, so that sums do not
// depend on a hash table's order.
struct WeightedNgrams {
  std::vector<std::pair<Ngram, double>> weights;
  std::array<double, kMaxOrder> norms{};
  double length = 0;  // in bigrams, as the COCO toolkit counts
};

std::vector<std::pair<Ngram, std::int64_t>> ordered_counts(const WordIds& words) {
  std::vector<std::pair<Ngram, std::int64_t>> counts;
  NgramMap<std::size_t> places;
  places.reserve(words.size() * kMaxOrder);
  for_each_ngram(words, [&](const Ngram& ngram) {
    const auto [entry, is_new] = places.try_emplace(ngram, counts.size());
    if (is_new) counts.emplace_back(ngram, 0);
    ++counts[entry->second].second;
  });
  return counts;
}

}  // namespace

struct CiderD::State {
  NgramMap<std::int32_t> document_frequency;
  double log_num_segments = 0;

  WeightedNgrams weigh(const WordIds& words) const {
    WeightedNgrams out;
    for (const auto& [ngram, count] : ordered_counts(words)) {
      const auto entry = document_frequency.find(ngram);
      const double frequency =
          entry == document_frequency.end() ? 1.0 : static_cast<double>(entry->second);
      const double weight = static_cast<double>(count) * (log_num_segments - std::log(frequency));
      const std::size_t n = order_of(ngram) - 1;
      out.weights.emplace_back(ngram, weight);
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
  NgramMap<std::size_t> last_seen;  // segment + 1 that last counted this n-gram
  for (std::size_t segment = 0; segment < references.size(); ++segment) {
    for (const WordIds& reference : references[segment]) {
      for_each_ngram(reference, [&](const Ngram& ngram) {
        std::size_t& last = last_seen[ngram];
        if (last == segment + 1) return;
        last = segment + 1;
        ++state_->document_frequency[ngram];
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
    NgramMap<double> reference_weights;
    reference_weights.reserve(r.weights.size());
    for (const auto& [ngram, weight] : r.weights) reference_weights.emplace(ngram, weight);
    std::array<double, kMaxOrder> values{};
    for (const auto& [ngram, weight] : h.weights) {
      const auto entry = reference_weights.find(ngram);
      if (entry == reference_weights.end()) continue;
      values[order_of(ngram) - 1] += std::min(weight, entry->second) * entry->second;
    }
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
