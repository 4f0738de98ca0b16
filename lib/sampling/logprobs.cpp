#include "sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace caption::sampling {

TokenLogprobs find_logprobs(std::span<const float> logits, std::int32_t id, std::int32_t num_top) {
  CAPTION_CHECK(id >= 0 && id < std::ssize(logits), "sampling: the log-probability of id " +
                                                        std::to_string(id) + " of " +
                                                        std::to_string(logits.size()) + " logits");
  CAPTION_CHECK(num_top >= 0 && num_top <= std::ssize(logits),
                "sampling: " + std::to_string(num_top) + " log-probabilities of " +
                    std::to_string(logits.size()) + " logits");
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - max);
  const double log_sum = std::log(sum);
  const auto logprob_at = [&](std::int32_t i) {
    // Subtracts max first to keep the digits of large logits; clamps rounding errors above 0.
    return std::min(0.0, static_cast<double>(logits[static_cast<std::size_t>(i)]) - max - log_sum);
  };

  TokenLogprobs result;
  result.chosen = {id, logprob_at(id)};
  // A heap of the most likely tokens with the least likely on top. Compares logits, because the
  // log-probabilities of close logits may round to one value. Ids come in increasing order, so a
  // token that equals the last kept one is not kept.
  const auto is_likelier = [&](const TokenLogprob& a, const TokenLogprob& b) {
    const float logit_a = logits[static_cast<std::size_t>(a.id)];
    const float logit_b = logits[static_cast<std::size_t>(b.id)];
    return logit_a > logit_b || (logit_a == logit_b && a.id < b.id);
  };
  std::vector<TokenLogprob>& top = result.top;
  if (num_top == 0) return result;
  top.reserve(static_cast<std::size_t>(num_top));
  for (std::int32_t i = 0; i < std::ssize(logits); ++i) {
    const TokenLogprob candidate = {i, 0};
    if (std::ssize(top) == num_top) {
      if (!is_likelier(candidate, top.front())) continue;
      std::pop_heap(top.begin(), top.end(), is_likelier);
      top.pop_back();
    }
    top.push_back(candidate);
    std::push_heap(top.begin(), top.end(), is_likelier);
  }
  std::sort_heap(top.begin(), top.end(), is_likelier);
  for (TokenLogprob& token : top) token.logprob = logprob_at(token.id);
  return result;
}

}  // namespace caption::sampling
