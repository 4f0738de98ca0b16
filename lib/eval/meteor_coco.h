// eval/meteor_coco.h: METEOR 1.5 (the Java tool inside COCO's caption toolkit), exact matches only.
//   P = m / |h|   R = m / |r|   F = 1 / ((1 - alpha) / P + alpha / R)
//   frag = 0 for a perfect match in one chunk, else chunks / m
//   score = F (1 - gamma frag^beta)
// Source: Denkowski and Lavie 2014; tests/golden/eval holds scores of meteor-1.5.jar.
//
// Every word counts as a content word (delta cancels): no Hangul syllable is in METEOR's list of
// function words, and no stem, synonym or paraphrase module of METEOR applies to Korean. English
// words therefore score as the Java tool would without those modules.
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
// What Java METEOR takes for `-l en` (COCO's choice) and for a language it does not know.
inline constexpr Meteor15Parameters kMeteor15English{0.85, 0.20, 0.60};
inline constexpr Meteor15Parameters kMeteor15Other{0.75, 1.40, 0.70};

// What one segment adds to the sums of a corpus.
struct Meteor15Statistics {
  std::int64_t hypothesis_length = 0;
  std::int64_t reference_length = 0;
  std::int64_t num_matches = 0;
  std::int64_t num_chunks = 0;
};

// Aligns two sentences of word ids: most matches, then fewest chunks, then the tool's measure of
// distance, by its beam search of width 40 with the tool's order of equals, so that its scores are
// met exactly. O(words * matches per word * 40).
Meteor15Statistics meteor15_align(std::span<const std::int32_t> hypothesis,
                                  std::span<const std::int32_t> reference);

// 0 when nothing matches. The same formula serves a segment and, as in COCO's toolkit, the sums
// over a corpus: there chunks > 1 always, so that even a corpus of perfect captions stays below 1.
double meteor15_score(const Meteor15Statistics& statistics,
                      const Meteor15Parameters& parameters = kMeteor15English);

// The statistics of the best-scoring reference, the first among equals.
Meteor15Statistics meteor15_best(std::span<const std::int32_t> hypothesis,
                                 std::span<const std::vector<std::int32_t>> references,
                                 const Meteor15Parameters& parameters = kMeteor15English);

}  // namespace caption::eval
