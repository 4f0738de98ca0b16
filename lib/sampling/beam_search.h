// sampling/beam_search.h: one request's beam search, as transformers >= 4.50 defines it
// (GenerationMixin._beam_search; models.md §8.3): running beams by the plain sum of
// log-probabilities, finished ones by sum / length^length_penalty.
//
// The caller owns K and V. It computes the logits of the running beams, gives them to advance(),
// and arranges the beams' pages as `parents` says before it computes the next tokens:
//   1 row after the prompt, then num_beams rows, in the order of running beams.
// The processors of the sampler (repetition_penalty, no_repeat_ngram_size, min_new_tokens) act on
// the log-probabilities of each beam with its own history.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/sampler.h"
#include "sampling/sampling_params.h"

namespace caption::sampling {

class BeamSearch {
 public:
  // params.num_beams >= 2, validated; keeps copies. `vocab` >= the candidates of one step,
  // num_beams * max(2, 1 + stop ids).
  BeamSearch(const SamplingParams& params, std::span<const std::int32_t> prompt_ids,
             std::int64_t vocab);

  // The running beams of the next step: beam i continues the old beam parents[i] with tokens[i].
  // Empty when the search has ended.
  struct Step {
    std::span<const std::int32_t> parents;
    std::span<const std::int32_t> tokens;
  };
  // `logits` [rows, vocab], overwritten; rows is 1 in the first call, then num_beams. Valid until
  // the next call. `sampler` is workspace. Throws Error(kInternal) for NaN or +inf, or when no
  // candidate is left.
  Step advance(Sampler& sampler, std::span<float> logits);

  bool is_finished() const { return is_finished_; }
  // Ids of running beam i, prompt included.
  std::span<const std::int32_t> running(std::int64_t beam) const;
  // The best finished output; after the end only.
  struct Best {
    std::span<const std::int32_t> output_ids;  // the stop id included
    double score = 0;
    bool is_stopped = false;  // by a stop id; else by max_new_tokens
  };
  Best best() const;

 private:
  bool is_finished_ = false;
};

}  // namespace caption::sampling
