// eval/meteor_coco.h: METEOR 1.5 (the Java tool inside COCO's caption toolkit), exact matches only.
//   P = m / |h|   R = m / |r|   F = 1 / ((1 - alpha) / P + alpha / R)
//   frag = 0 for a perfect match in one chunk, else chunks / m
//   score = F (1 - gamma frag^beta)
// Source: Denkowski and Lavie 2014; tests/golden/eval has scores of meteor-1.5.jar.
//
// Every word counts as a content word, so METEOR's weight delta cancels: no Hangul syllable is in
// its list of function words, and its stem, synonym and paraphrase modules do not support Korean.
// English words therefore score as in the Java tool without those modules and that list. Functions
// are pure and thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace caption::eval {

struct Meteor15Parameters {
  double alpha = 0.85;
  double beta = 0.20;
  double gamma = 0.60;
};
// Parameters of Java METEOR for `-l en` (used by COCO) and for an unsupported language.
inline constexpr Meteor15Parameters kMeteor15English{0.85, 0.20, 0.60};
inline constexpr Meteor15Parameters kMeteor15Other{0.75, 1.40, 0.70};

// The contribution of one segment to the sums over a corpus.
struct Meteor15Statistics {
  std::int64_t hypothesis_length = 0;
  std::int64_t reference_length = 0;
  std::int64_t num_matches = 0;
  std::int64_t num_chunks = 0;
};

// Aligns two sentences of word ids: most matches, then fewest chunks, then the tool's distance
// measure, with its beam search of width 40 and its order of equal paths, so that its scores are
// reproduced exactly. O(words * (40 + words / 64) * 40) at most.
Meteor15Statistics meteor15_align(std::span<const std::int32_t> hypothesis,
                                  std::span<const std::int32_t> reference);

// The chunks of a segment in the sums over a corpus: 0 where all words match in one chunk, as in
// the Java tool's aggregation.
std::int64_t summed_chunks(const Meteor15Statistics& segment);

// 0 when nothing matches. The formula is used for one segment and, as in COCO's toolkit, for the
// sums over a corpus, whose chunks are those of summed_chunks().
double meteor15_score(const Meteor15Statistics& statistics,
                      const Meteor15Parameters& parameters = kMeteor15English);

// The statistics with the best-scoring reference, the first among equals.
Meteor15Statistics meteor15_best(std::span<const std::int32_t> hypothesis,
                                 std::span<const std::vector<std::int32_t>> references,
                                 const Meteor15Parameters& parameters = kMeteor15English);

}  // namespace caption::eval
