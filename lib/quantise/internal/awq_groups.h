// quantise/internal/awq_groups.h: groups of weights, as AWQ's search for scales rounds them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "backend/thread_pool.h"
#include "tensor/tensor.h"

namespace caption::quantise {

inline float largest_magnitude(std::span<const float> numbers) {
  float largest = 0;
  for (const float number : numbers) largest = std::max(largest, std::abs(number));
  return largest;
}

// Replaces the weights of a group by the values of their codes (pseudo_quantise()).
inline void round_awq_values(std::span<float> group) {
  const auto [lowest, highest] = std::minmax_element(group.begin(), group.end());
  const float min = std::min(*lowest, 0.0F);
  const float max = std::max(*highest, 0.0F);
  const float scale = std::max(max - min, 1e-5F) / 15.0F;
  const float zero = std::clamp(-std::nearbyint(min / scale), 0.0F, 15.0F);
  for (float& weight : group) {
    const float code = std::clamp(std::nearbyint(weight / scale) + zero, 0.0F, 15.0F);
    weight = (code - zero) * scale;
  }
}

// Returns the columns of a group; 0 means all. Throws Error(kInternal) when groups do not divide
// the columns.
std::int64_t awq_group(std::int64_t columns, std::int64_t group_columns);

// Throws Error(kBadModel) "`what` is not a finite number" for numbers in f32.
void require_finite(ThreadPool& pool, ConstView rows, const char* what);

}  // namespace caption::quantise
