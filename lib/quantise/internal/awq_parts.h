// quantise/internal/awq_parts.h: the numbers that the tensors of the format awq stand for.
#pragma once

#include <span>

#include "quantise/format.h"
#include "tensor/tensor.h"

namespace caption::quantise {

// Returns a matrix of `shape` [N, K] f32 from the tensors that Format::pack() of awq makes of it,
// as lib/weights/awq_source.cpp reads them.
Tensor decode_awq(std::span<const Bytes> parts, const Shape& shape);

}  // namespace caption::quantise
