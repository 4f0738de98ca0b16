// kernels/embedding.h: looks up rows of an embedding table as activations.
//   y[t, :] = f32(table[ids[t], :])
//
// ids    [T] i32, each in [0, vocab)
// table  [vocab, dim], see kernels/weight.h
// y      [T, dim] f32, rows may be strided; written whole
// The result is exact for f32, bf16 and f16 tables; for quantised tables it is the dequantised row.
// Operands are on the stream's device. Throws Error(kInternal) when shapes or dtypes disagree, or
// (CPU only) when an id is out of range.
#pragma once

#include "backend/stream.h"
#include "kernels/weight.h"
#include "tensor/tensor.h"

namespace caption::kernels {

void embedding(Stream& stream, ConstView ids, const Weight& table, View y);

namespace impl {
void embedding(Cpu device, Stream& stream, ConstView ids, const Weight& table, View y);
void embedding(Cuda device, Stream& stream, ConstView ids, const Weight& table, View y);
}  // namespace impl

}  // namespace caption::kernels
