// sampling/logprobs.h: log-probabilities of tokens from the unmodified logits of the model (before
// penalties, temperature and truncation, as vLLM's "raw_logprobs").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace caption::sampling {

struct TokenLogprob {
  std::int32_t id = 0;
  double logprob = 0;  // natural logarithm, <= 0
};

struct TokenLogprobs {
  TokenLogprob chosen;
  // The most likely tokens, best first; the lower id first among equals.
  std::vector<TokenLogprob> top;
};

// Returns logits[id] - log(sum_j exp(logits[j])) for `id` and for the `num_top` largest logits;
// sums are double. 0 <= num_top <= logits.size(). Throws Error(kInternal) for an id outside the
// logits.
TokenLogprobs find_logprobs(std::span<const float> logits, std::int32_t id, std::int32_t num_top);

}  // namespace caption::sampling
