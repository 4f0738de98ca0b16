// kernels/embedding.h: rows of an embedding table, as activations.
//   y[t, :] = f32(table[ids[t], :])
//
// ids    [T] i32, each in [0, vocab)
// table  [vocab, dim], see kernels/packed_weight.h; as rows f32, bf16 or f16, which may be strided
// y      [T, dim] f32, rows may be strided; written whole
// Exact: widening to f32 loses nothing; of quantised weights the values they stand for. Operands live on the stream's device.
// Throws Error(kInternal) when shapes or dtypes disagree, or (CPU) an id is out of range.
#pragma once

#include "backend/stream.h"
#include "kernels/packed_weight.h"
#include "tensor/tensor.h"

namespace caption::kernels {

void embedding(Stream& stream, ConstView ids, const PackedWeight& table, View y);

namespace impl {
void embedding(Cpu device, Stream& stream, ConstView ids, const PackedWeight& table, View y);
void embedding(Cuda device, Stream& stream, ConstView ids, const PackedWeight& table, View y);
}  // namespace impl

}  // namespace caption::kernels
