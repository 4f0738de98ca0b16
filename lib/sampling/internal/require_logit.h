// sampling/internal/require_logit.h: refuses logits that no sound model gives.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>

#include "base/error.h"

namespace caption::sampling {

// Throws Error(kBadModel) when logits[i] is NaN or +inf; -inf stands for an id that is ruled out.
inline void require_logit(std::span<const float> logits, std::size_t i) {
  // The comparison is false for NaN and +inf, so one comparison detects both.
  if (logits[i] <= std::numeric_limits<float>::max()) return;
  throw Error(ErrorCode::kBadModel, "sampling: logit " + std::to_string(i) + " of " +
                                        std::to_string(logits.size()) + " is " +
                                        (std::isnan(logits[i]) ? "NaN" : "+inf") +
                                        "; the model or its weights are broken");
}

}  // namespace caption::sampling
