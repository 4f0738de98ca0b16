// kernels/internal/check_logits.h: operand checks that the operations on rows of logits share.
#pragma once

#include <cstddef>
#include <string_view>

#include "kernels/internal/check.h"

namespace caption::kernels::internal {

// Checks logits [B, V] f32, 1 <= V <= kMaxSampledVocab; rows may be strided.
void check_logits(const Check& check, ConstView logits);

void check_aligned(const Check& check, std::string_view name, ConstView view, std::size_t bytes);

// Checks rows [B, bytes of one] i8, dense, the parameters of each row, and ids [n] i32, dense, of
// which they name ranges.
void check_rows_of_ids(const Check& check, ConstView rows, const Shape& shape,
                       std::size_t alignment, ConstView ids);

}  // namespace caption::kernels::internal
