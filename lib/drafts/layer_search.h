// drafts/layer_search.h: which layers of a decoder are left out when it guesses its own tokens.
//
// A pass over some of the layers guesses the next token, and the whole decoder verifies it
// (self-speculative decoding: Zhang et al., Draft & Verify, arXiv:2309.08168; Xia et al., SWIFT,
// arXiv:2410.06916). Texts that the decoder has written show how good a set of layers is. The
// tokens of a text are given to the passes one after the other; its score is the number of guesses
// that are right until the first wrong one. That is what drafts of this length would have had
// accepted there, since only what equals the text is accepted.
//
// With alpha the share of right guesses among those with an outcome, and c the bytes of weights
// that a pass reads, relative to a step, d guesses give (1 + alpha + ... + alpha^d) / (1 + d (c +
// kRowShare)) times the speed. The search is greedy. First every layer but the first and the last
// is left out alone, and layers are ordered by the likelihood that the rest gives the texts. Then
// the sets of the first 1, ..., n - 2 layers in this order, at most kMostSets of them, are scored
// with further texts. After each round the worse half of them is dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace caption::drafts {

// Layers that are left out, ascending; none: no set of layers promises to pay.
struct LeftOutLayers {
  std::vector<std::int32_t> layers = {};
  double acceptance = 0;  // alpha, as measured
  double cost = 1;        // c
  double gain = 1;        // the speed, relative to that without drafts

  bool pays() const { return !layers.empty(); }
};

// A search that has no result yet.
struct UnfinishedSearch {
  std::int64_t num_texts = 0;   // texts that the sets were scored with
  std::int64_t most_texts = 0;  // texts that a search needs; one that finds no gain ends early
};

// How well a set of layers guessed some texts.
struct LayerScore {
  std::int64_t num_right = 0;  // guesses until the first wrong one of each text
  std::int64_t num_known = 0;  // num_right and these wrong ones
  double log_likelihood = 0;   // sum over all tokens of the texts

  LayerScore& operator+=(const LayerScore& other) {
    num_right += other.num_right;
    num_known += other.num_known;
    log_likelihood += other.log_likelihood;
    return *this;
  }
};

// Not thread-safe.
class LayerSearch {
 public:
  using Layers = std::vector<std::int32_t>;

  // `cost` is c for these layers left out, which are ascending, not all, and >= 1.
  LayerSearch(std::int64_t num_layers, std::function<double(const Layers&)> cost);

  bool is_done() const { return sets_.empty(); }
  // The sets of layers to leave out, of which each shall be scored with the same num_texts() texts
  // that were not used before.
  std::span<const Layers> sets() const { return sets_; }
  std::int64_t num_texts() const { return round_ == 0 ? kFirstTexts : kTexts; }
  // The texts of all rounds so far, and of all that a search with so many layers can have.
  UnfinishedSearch progress() const;
  // `scores` are parallel to sets().
  void observe(std::span<const LayerScore> scores);
  // The best set; requires is_done().
  const LeftOutLayers& result() const { return result_; }

  static constexpr std::int64_t kFirstTexts = 2;
  static constexpr std::int64_t kTexts = 4;
  static constexpr std::int64_t kMostSets = 8;
  // A verified row and a row of a pass take this share of a step besides the weights.
  static constexpr double kRowShare = 0.02;
  // Layers are left out for at least this gain. Smaller ones are within what scores of so few texts
  // can be off by.
  static constexpr double kLeastGain = 1.05;

 private:
  void make_nested_sets(std::span<const LayerScore> scores);
  LeftOutLayers judged(std::size_t set) const;

  std::function<double(const Layers&)> cost_;
  std::int64_t num_layers_;
  int round_ = 0;
  std::vector<Layers> sets_;
  std::vector<LayerScore> totals_;  // parallel to sets_, over the rounds
  LeftOutLayers result_;
};

}  // namespace caption::drafts
