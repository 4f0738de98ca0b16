#include "drafts/layer_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace caption::drafts {
namespace {

constexpr int kMostDepth = 8;
// A set that was right always may yet be wrong: two guesses are added of which one is right.
constexpr double kPriorGuesses = 2;
constexpr double kPriorRight = 1;

double gain_of(double alpha, double cost) {
  double best = 1;
  double tokens = 1;
  double right = 1;
  for (int depth = 1; depth <= kMostDepth; ++depth) {
    right *= alpha;
    tokens += right;
    best = std::max(best, tokens / (1 + depth * (cost + LayerSearch::kRowShare)));
  }
  return best;
}

}  // namespace

LayerSearch::LayerSearch(std::int64_t num_layers, std::function<double(const Layers&)> cost)
    : cost_(std::move(cost)), num_layers_(num_layers) {
  for (std::int32_t layer = 1; layer + 1 < num_layers_; ++layer) sets_.push_back({layer});
}

UnfinishedSearch LayerSearch::progress() const {
  const auto texts_of = [](int num_rounds) {
    return num_rounds == 0 ? 0 : kFirstTexts + (num_rounds - 1) * kTexts;
  };
  int most_rounds = 1;
  // Each round but the first halves the sets, and the last one has a single set.
  for (std::int64_t sets = std::min(num_layers_ - 2, kMostSets); sets > 0; ++most_rounds) {
    sets = sets == 1 ? 0 : (sets + 1) / 2;
  }
  return {.num_texts = texts_of(round_), .most_texts = texts_of(most_rounds)};
}

LeftOutLayers LayerSearch::judged(std::size_t set) const {
  const LayerScore& score = totals_[set];
  LeftOutLayers judged{.layers = sets_[set]};
  judged.acceptance = (static_cast<double>(score.num_right) + kPriorRight) /
                      (static_cast<double>(score.num_known) + kPriorGuesses);
  judged.cost = cost_(judged.layers);
  judged.gain = gain_of(judged.acceptance, judged.cost);
  return judged;
}

void LayerSearch::make_nested_sets(std::span<const LayerScore> scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return scores[a].log_likelihood > scores[b].log_likelihood;
  });
  const std::vector<Layers> singles = std::exchange(sets_, {});
  const auto num_inner = static_cast<std::int64_t>(singles.size());
  const std::int64_t num_sets = std::min(num_inner, kMostSets);
  for (std::int64_t n = 1; n <= num_sets; ++n) {
    Layers set;
    for (std::int64_t i = 0; i < n * num_inner / num_sets; ++i) {
      set.push_back(singles[order[static_cast<std::size_t>(i)]].front());
    }
    std::sort(set.begin(), set.end());
    sets_.push_back(std::move(set));
  }
  totals_.assign(sets_.size(), {});
}

void LayerSearch::observe(std::span<const LayerScore> scores) {
  CAPTION_CHECK(scores.size() == sets_.size() && !is_done(),
                "layer search: scores of other sets of layers");
  if (round_++ == 0) return make_nested_sets(scores);
  std::vector<std::pair<LeftOutLayers, LayerScore>> judged_sets;
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    totals_[i] += scores[i];
    judged_sets.emplace_back(judged(i), totals_[i]);
  }
  std::stable_sort(judged_sets.begin(), judged_sets.end(),
                   [](const auto& a, const auto& b) { return a.first.gain > b.first.gain; });
  const LeftOutLayers best = judged_sets.front().first;
  const bool is_last_round = judged_sets.size() == 1;
  sets_.clear();
  totals_.clear();
  if (best.gain < kLeastGain) {
    result_ = {.acceptance = best.acceptance, .cost = best.cost, .gain = best.gain};
  } else if (is_last_round) {
    result_ = best;
  } else {
    for (std::size_t i = 0; i < (judged_sets.size() + 1) / 2; ++i) {
      sets_.push_back(judged_sets[i].first.layers);
      totals_.push_back(judged_sets[i].second);
    }
  }
}

}  // namespace caption::drafts
