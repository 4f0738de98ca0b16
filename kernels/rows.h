// kernels/rows.h: moving and adding whole rows between matrices.
//   gather_rows:   y[i, :] = x[rows[i], :]
//   scatter_rows:  y[rows[i], :] = x[i, :]
//   add_rows:      y[rows[i], :] += x[i, :]
//
// rows  [n] i32; must not contain duplicates for scatter_rows() and add_rows()
// x, y  [*, dim] of one dtype (any), rows may be strided; must not overlap
// Throws Error(kInternal) when shapes or dtypes disagree, or (CPU) a row is out of range.
#pragma once

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

// x [m, dim], rows in [0, m), y [n, dim] written whole.
void gather_rows(Stream& stream, ConstView x, ConstView rows, View y);

// x [n, dim], y [m, dim], rows in [0, m); the other rows of y do not change.
void scatter_rows(Stream& stream, ConstView x, ConstView rows, View y);

// x [n, dim] f32, y [m, dim] f32, rows in [0, m); the other rows of y do not change.
void add_rows(Stream& stream, ConstView x, ConstView rows, View y);

namespace impl {
void gather_rows(Cpu device, Stream& stream, ConstView x, ConstView rows, View y);
void gather_rows(Cuda device, Stream& stream, ConstView x, ConstView rows, View y);
void scatter_rows(Cpu device, Stream& stream, ConstView x, ConstView rows, View y);
void scatter_rows(Cuda device, Stream& stream, ConstView x, ConstView rows, View y);
void add_rows(Cpu device, Stream& stream, ConstView x, ConstView rows, View y);
void add_rows(Cuda device, Stream& stream, ConstView x, ConstView rows, View y);
}  // namespace impl

}  // namespace caption::kernels
