// kernels/internal/check_linear.h: operand checks that the dense layers share.
#pragma once

#include <span>

#include "kernels/internal/check.h"
#include "kernels/linear.h"

namespace caption::kernels::internal {

// Whether one pass may compute all parts.
bool are_alike(std::span<const LinearPart> parts);

// Checks x [M, K] and the parts of one pass. Also sets the matrix in the profile to all parts
// stacked: the sum of their features by K.
void check_parts(Check& check, ConstView x, std::span<const LinearPart> parts, LinearOutput output);

}  // namespace caption::kernels::internal
