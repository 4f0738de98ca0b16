// quantise/internal/gptq_grid.h: scale and zero of a group of weights as GPTQ finds them, for
// rounding to nearest and for the solver (gptq_solver.h has the formulas).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace caption::quantise {

struct GptqGrid {
  float scale = 0;
  float zero = 0;  // a whole number

  float code(float weight) const {
    return std::clamp(std::nearbyint(weight / scale) + zero, 0.0F, 15.0F);
  }
};

// min and max are those of the group's weights.
inline GptqGrid find_gptq_grid(float min, float max, bool symmetric) {
  min = std::min(min, 0.0F);
  max = std::max(max, 0.0F);
  if (symmetric) {
    max = std::max(-min, max);
    min = -max;
  }
  if (min == 0 && max == 0) {
    min = -1;
    max = 1;
  }
  const float scale = (max - min) / 15;
  const float zero = symmetric ? 8.0F : std::nearbyint(-min / scale);
  return {.scale = scale, .zero = zero};
}

}  // namespace caption::quantise
