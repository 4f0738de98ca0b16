// kernels/internal/attention_limits.h: limits on head_dim and scale that both attentions check.
#pragma once

#include <cstdint>

#include "kernels/internal/check.h"

namespace caption::kernels::internal {

// The arrays of attention_mass() for a tile of queries are on the stack, so head_dim is bounded.
inline constexpr std::int64_t kMaxHeadDim = 256;

inline void check_attention_limits(const Check& check, std::int64_t head_dim, float scale) {
  if (head_dim < 1 || head_dim > kMaxHeadDim)
    check.fail("head_dim is " + std::to_string(head_dim) + "; wanted 1 to 256");
  if (scale <= 0) check.fail("scale is not positive");
}

}  // namespace caption::kernels::internal
