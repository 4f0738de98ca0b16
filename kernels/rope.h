// kernels/rope.h: rotary position embedding, the "NeoX" halves of Hugging Face's Llama and Qwen.
//   a = positions[axis[i], t] * inv_freq[i]                              (arXiv:2104.09864)
//   x'[t, h, i]          = x[t, h, i] * cos(a) - x[t, h, i + half] * sin(a)
//   x'[t, h, i + half]   = x[t, h, i + half] * cos(a) + x[t, h, i] * sin(a)     half = head_dim / 2
//
// The angles are the same for every layer and for q and k, so rope_table() is called once per step.
// Angle, cosine and sine are computed in f32, as torch does. With YaRN the table is multiplied by a
// factor, and so are q and k.
// Throws Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

// inv_freq  [half] f32, with any position scaling applied (linear scaling divides it by the factor)
// positions [T] i32, or [axes, T] where a token has a position along several axes, such as time,
//           height and width (M-RoPE, arXiv:2409.12191)
// axis      [half] i32: the axis that each frequency follows, in [0, axes); empty with [T]
// scale     factor of every cosine and sine
// table     [T, 2 * half] f32 dense: cosines, then sines
struct RopeAngles {
  ConstView positions;
  ConstView inv_freq;
  ConstView axis = {};
  float scale = 1;
};
void rope_table(Stream& stream, const RopeAngles& angles, View table);

// Rotates x in place. table [T, head_dim]; x [T, heads, head_dim] f32, the first axis may be
// strided.
void rope(Stream& stream, ConstView table, View x);

namespace impl {
void rope_table(Cpu device, Stream& stream, const RopeAngles& angles, View table);
void rope_table(Cuda device, Stream& stream, const RopeAngles& angles, View table);
void rope(Cpu device, Stream& stream, ConstView table, View x);
void rope(Cuda device, Stream& stream, ConstView table, View x);
}  // namespace impl

}  // namespace caption::kernels
