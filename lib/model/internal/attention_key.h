// model/internal/attention_key.h: the precision in which a tower's attention reads keys and values.
#pragma once

#include "kernels/convert.h"
#include "kernels/weight.h"
#include "model/internal/scratch.h"

namespace caption::model {

// Returns keys or values in the precision in which `weight`, which projected them, took its own
// input: rounded to bf16 in `rounded` if the product rounds it, so that attention may multiply
// bf16, otherwise `projected` itself.
inline ConstView as_key(Stream& stream, const kernels::Weight& weight, ConstView projected,
                        Scratch& rounded) {
  if (!weight.rounds_input()) return projected;
  const View to = rounded.view(projected.shape());
  kernels::convert(stream, projected, to);
  return to;
}

}  // namespace caption::model
