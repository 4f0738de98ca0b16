// sampling/sampler.h: selects one token from one row of logits, with Hugging Face's definitions.
// Source: transformers 4.57 GenerationMixin._get_logits_processor and its processors; same result,
// see tests/golden/sampling.
//
// The chain, in this order:
//   repetition_penalty p      each distinct id of the history, once: x < 0 ? x * p : x / p
//   no_repeat_ngram_size n    -inf for every id that would repeat an n-gram of the history
//                             (of the output alone without SamplingParams::counts_prompt)
//   min_new_tokens m          -inf for the stop ids while fewer than m tokens are out
//   -- temperature 0: the largest logit, the lowest id among equals; else
//   temperature T             x / T
//   top_k k                   -inf below the k-th largest; ties with it stay
//   top_p p                   ids in order of probability, ending with the one that reaches p
//                             (HF: ascending, removed while the sum is <= 1 - p); the first stays
//   softmax, then one draw
// Arithmetic on logits is float as in the source; sums of probabilities are double. Among equal
// logits top_p keeps the lower id (the source uses an unstable sort).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/sampling_params.h"

namespace caption::sampling {

// Throws Error(kUsage) naming a field that is out of range for a model with `vocab` logits.
void validate(const SamplingParams& params, std::int64_t vocab);

struct TokenProbability {
  std::int32_t id = 0;
  double probability = 0;
};

// The token ids of a request: the prompt (placeholder ids included), then the output.
struct History {
  std::span<const std::int32_t> ids;
  std::int64_t num_prompt = 0;

  std::int64_t num_output() const { return static_cast<std::int64_t>(ids.size()) - num_prompt; }
};

// Owns its workspace (24 bytes per id of the vocabulary), so it allocates nothing per token.
// Not thread-safe; calls are independent of each other.
class Sampler {
 public:
  explicit Sampler(std::int64_t vocab);

  // Returns the next token; `logits` [vocab] is overwritten. The draw depends only on params.seed
  // and history.num_output(). Throws Error(kBadModel) for a logit that is NaN or +inf, and
  // Error(kInternal) when no id is left.
  std::int32_t sample(const SamplingParams& params, const History& history,
                      std::span<float> logits);

  // Applies the first three steps of the chain in place. Ids of the history outside the vocabulary
  // (such as placeholders) are ignored.
  void penalise(const SamplingParams& params, const History& history, std::span<float> logits);
  // Applies the rest of the chain up to the softmax, for temperature > 0. Returns the remaining ids
  // with their probabilities, in an order that depends only on the logits. `logits` is overwritten.
  // The result is valid until the next call. Throws as sample().
  std::span<const TokenProbability> warp(const SamplingParams& params, std::span<float> logits);

 private:
  void penalise_repetition(float penalty, std::span<const std::int32_t> ids,
                           std::span<float> logits);
  float kth_largest(std::span<const float> logits, std::int64_t k);

  // Indexed by id: number of the last call in which the id occurred.
  std::vector<std::uint32_t> seen_at_;
  std::uint32_t call_ = 0;
  std::vector<float> largest_;
  std::vector<TokenProbability> kept_;
};

}  // namespace caption::sampling
