// sampling/beam_candidates.h: the best continuations of one running beam, from its row of logits.
//
//   lp[v]    = processors((x[v] - max x) - log(sum of e^(x - max x)))[v]
//   score[v] = lp[v] + the beam's score
//
// The processors (repetition_penalty, no_repeat_ngram_size, min_new_tokens) act on
// log-probabilities as sampling/beam_search.h says. A score is a float, and each operation above is
// rounded to one. The logarithm of the sum is within 2^-23 + V 2^-44 of its value before it is
// rounded: an exponential is an integer of 2^-44, so that sums are exact in every order, and a GPU
// finds the same bits (kernels/beam_candidates.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/sampler.h"
#include "sampling/sampling_params.h"

namespace caption::sampling {

struct BeamCandidate {
  float score = 0;
  std::int32_t id = 0;
};

// What decides the scores of a beam's candidates besides its logits.
struct RunningBeam {
  float score = 0;  // the sum of log-probabilities; -inf: the beam has no candidates
  float repetition_penalty = 1;
  std::int32_t no_repeat_ngram_size = 0;
  std::span<const std::int32_t> counted_ids = {};  // the part of its history that these two count
  std::span<const std::int32_t> ruled_out = {};    // ids in the vocabulary that it may not take
};
// `history` is the beam's. The result borrows from the arguments.
RunningBeam running_beam(const SamplingParams& params, const History& history, float score);

// The most candidates of a row.
inline constexpr std::int64_t kMostBeamCandidates = 256;

// Candidates of each row with which a search finds what it finds with all of them: num_beams that
// are no stop ids, and all stop ids before these.
std::int64_t num_beam_candidates(const SamplingParams& params);

// The logarithm of the sum of e^(x - max) over the logits, at most 2^20 - 1, none of which is above
// `max`; one equals it.
float log_sum_exp(std::span<const float> logits, float max);

// Owns its workspace, 28 bytes per id of the vocabulary. Not thread-safe; calls are independent.
class BeamScorer {
 public:
  explicit BeamScorer(std::int64_t vocab);

  // Writes the candidates with the greatest scores, of equal ones the lower ids, to the front of
  // `best`, best first; those of -inf are none. Returns how many there are. Throws Error(kBadModel)
  // for a logit that is NaN or +inf.
  std::int64_t find(const RunningBeam& beam, std::span<const float> logits,
                    std::span<BeamCandidate> best);

  std::int64_t vocab() const { return static_cast<std::int64_t>(log_probs_.size()); }

 private:
  Sampler sampler_;
  std::vector<float> log_probs_;
};

}  // namespace caption::sampling
