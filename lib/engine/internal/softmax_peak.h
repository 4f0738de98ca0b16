// engine/internal/softmax_peak.h: the largest logit of a row, and the softmax around it.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include "drafts/draft_model.h"
#include "drafts/token_archive.h"

namespace caption::engine {

struct SoftmaxPeak {
  std::int32_t id = 0;  // the largest logit's id, the lowest among equals
  float logit = 0;
  float sum = 1;  // sum of exp(logit of an id - logit), without terms below e^-kLeast

  // log p(id) in the softmax.
  double log_probability(float of_id) const {
    return static_cast<double>(of_id - logit) - std::log(static_cast<double>(sum));
  }
};

// nullopt where a logit is NaN or the largest is infinite.
inline std::optional<SoftmaxPeak> find_peak(std::span<const float> logits) {
  constexpr float kLeast = 20;  // 200,000 ids below e^-20 have less than 0.001 of the sum
  SoftmaxPeak peak{.id = 0, .logit = logits.front(), .sum = 0};
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (std::isnan(logits[id])) return std::nullopt;
    if (logits[id] <= peak.logit) continue;
    peak.logit = logits[id];
    peak.id = static_cast<std::int32_t>(id);
  }
  if (std::isinf(peak.logit)) return std::nullopt;
  for (const float logit : logits) {
    if (logit > peak.logit - kLeast) peak.sum += std::exp(logit - peak.logit);
  }
  return peak;
}

// The guess of a model whose own softmax has this peak.
inline drafts::Guess guess_at(const SoftmaxPeak& peak) {
  return {.token = peak.id,
          .match_length = drafts::kModelMatch,
          .count = static_cast<std::int32_t>(std::lround(drafts::kModelTotal / peak.sum)),
          .total = drafts::kModelTotal};
}

// The guess of a device that chose the token, and does not tell its probability.
inline drafts::Guess guess_of_device(std::int32_t token) {
  return {.token = token,
          .match_length = drafts::kModelMatch,
          .count = drafts::kModelTotal / 2,
          .total = drafts::kModelTotal};
}

}  // namespace caption::engine
