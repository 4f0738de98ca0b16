// eval/ngram_metrics.h: BLEU, ROUGE-L and CIDEr-D as the COCO caption toolkit computes them.
// Source: salaniz/pycocoevalcap (bleu_scorer.py, rouge.py, cider_scorer.py); Papineni et al. 2002,
// Lin 2004, Vedantam et al. 2015.
//
// A sentence is a list of word ids; equal ids are equal words. Functions are pure and thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "eval/tokenise.h"

namespace caption::eval {

using WordIds = std::vector<std::int32_t>;

// Assigns ids to tokens in order of first occurrence; equal tokens get equal ids. Not thread-safe.
class WordTable {
 public:
  WordIds ids(const Tokens& tokens);

 private:
  std::unordered_map<std::string, std::int32_t> ids_;
};

inline constexpr std::size_t kMaxOrder = 4;

// The contribution of one segment to the sums over a corpus.
struct BleuStatistics {
  std::array<std::int64_t, kMaxOrder> num_correct{};  // clipped to the maximum over references
  std::array<std::int64_t, kMaxOrder> num_guessed{};
  std::int64_t hypothesis_length = 0;
  std::int64_t reference_length = 0;  // length closest to the hypothesis; the shorter if two are
};
BleuStatistics bleu_statistics(const WordIds& hypothesis, std::span<const WordIds> references);

// BLEU-4 in 0..1, of one segment or of sums over segments:
//   (prod_i (correct_i + 1e-15) / (guessed_i + 1e-9))^(1/4), times exp(1 - 1/ratio) when
//   ratio = (hypothesis_length + 1e-15) / (reference_length + 1e-9) is below 1.
double bleu4(const BleuStatistics& statistics);

// F-score in 0..1 with beta = 1.2, over the longest common subsequence: P = lcs / |h|, R = lcs /
// |r|, each the maximum over the references independently. O(|h| |r|).
double rouge_l(const WordIds& hypothesis, std::span<const WordIds> references);

// CIDEr-D, n = 1..4, sigma = 6, in 0..10:
//   weight(g) = count(g) (ln N - ln max(1, df(g)));  per n the sum of min(w_h, w_r) w_r over
//   |w_h| |w_r|, times exp(-(len_h - len_r)^2 / (2 sigma^2)) where len counts bigrams; the mean
//   over n and over references, times 10.
// df(g) is the number of segments with g in any reference, N the number of segments. The score
// therefore depends on the whole reference set, and is 0 for a set of one (ln 1 = 0). score() is
// thread-safe.
class CiderD {
 public:
  // Counts document frequencies. `references` has one element per segment: its references.
  explicit CiderD(std::span<const std::vector<WordIds>> references);
  ~CiderD();
  CiderD(const CiderD&) = delete;
  CiderD& operator=(const CiderD&) = delete;

  // The score of one segment; 0 without references.
  double score(const WordIds& hypothesis, std::span<const WordIds> references) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::eval
