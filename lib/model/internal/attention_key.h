// model/internal/attention_key.h: the precision in which a tower's attention reads keys and values.
#pragma once

#include "kernels/activation_dtype.h"
#include "kernels/convert.h"
#include "kernels/weight.h"
#include "model/internal/scratch.h"

namespace caption::model {

// `memory` of f32 as memory of the dtype in which products with `weight` take it.
inline View as_input_of(const kernels::Weight& weight, View memory) {
  return View(memory.raw(), kernels::activation_dtype(weight), memory.shape(), memory.device());
}

// Returns keys or values in the precision in which `weight`, which projected them, took its own
// input: rounded in `rounded`, of bf16, if the product rounds it, so that attention may multiply 16
// bits, otherwise `projected` itself. On a GPU without bf16 the 16 bits are f16.
inline ConstView as_key(Stream& stream, const kernels::Weight& weight, ConstView projected,
                        Scratch& rounded) {
  if (!weight.rounds_input()) return projected;
  const bool is_f16 = kernels::activation_dtype(weight) == DType::kF16;
  const View memory = rounded.view(projected.shape());
  const View to(memory.raw(), is_f16 ? DType::kF16 : DType::kBF16, memory.shape(), memory.device());
  kernels::convert(stream, projected, to);
  return to;
}

}  // namespace caption::model
