// kernels/cpu/refusal.h: what kernels/sample_rows.h says of rows that the sampler refuses.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "kernels/sample_rows.h"

namespace caption::kernels::cpu {

// The first logit that is NaN or +inf, or that no token is left.
inline std::int32_t describe_refusal(std::span<const float> logits) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (std::isnan(logits[i])) return nan_at(id);
    if (logits[i] == std::numeric_limits<float>::infinity()) return infinity_at(id);
  }
  return kNoTokenLeft;
}

}  // namespace caption::kernels::cpu
