// sampling/logprobs.h: log-probabilities of tokens, of the model's own logits (before penalties,
// temperature and truncation, as vLLM's "raw_logprobs").
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
  std::vector<TokenLogprob> top;  // the likeliest, best first; ties: the lower id first
};

// logits[id] - log(sum_j exp(logits[j])) for `id` and the `num_top` largest; sums are double.
// 0 <= num_top <= logits.size(). Throws Error(kInternal) for an id outside the logits.
TokenLogprobs find_logprobs(std::span<const float> logits, std::int32_t id, std::int32_t num_top);

}  // namespace caption::sampling
