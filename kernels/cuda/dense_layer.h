// kernels/cuda/dense_layer.h: the operands of a dense layer (kernels/linear.h) on their way to the
// kernels of a weight form.
#pragma once

#include <span>

#include "kernels/linear.h"
#include "kernels/norm_linear.h"

namespace caption::kernels::cuda {

// Parts that one launch computes: q, k and v; gate and up.
inline constexpr std::size_t kMostParts = 4;

// Rows whose sums multiply_few_rows() makes.
inline constexpr std::int64_t kMostFewRows = 16;

struct DenseLayer {
  ConstView x;  // [M, K], M > 0
  // 1 to kMostParts parts, whose forms are alike.
  std::span<const LinearPart> parts;
  LinearOutput output = LinearOutput::kWrite;
  // The parts are gate and up, with as many features, and one y.
  bool is_swiglu = false;
  // x is that of these rows, which the kernel normalises; multiply_tiles() by at most kMostFewRows
  // only.
  const RowsToNorm* norm = nullptr;
};

// Multiplies by forms of Layout::kRows.
void multiply_rows(Stream& stream, const DenseLayer& layer);
// Multiplies by forms of Layout::kTiles.
void multiply_tiles(Stream& stream, const DenseLayer& layer);
// Which blocks multiply by codes, which changes no bit.
enum class CodeBlocks {
  kAsNeeded,  // by the numbers of rows and features
  kFewRows,   // kernels/cuda/multiply_codes.cu or multiply_integers.cu
  kSmall,     // small blocks of kernels/cuda/code_tiles.cu or integer_tiles.cu
  kLarge,     // their large blocks
};
// Multiplies by forms of Layout::kCodes.
void multiply_codes(Stream& stream, const DenseLayer& layer,
                    CodeBlocks blocks = CodeBlocks::kAsNeeded);

// Whether blocks of their own sum the slices of K (kernels/cuda/tile_layout.h), which changes no
// bit.
enum class SliceBlocks {
  kAsNeeded,  // where there are too few blocks for a GPU otherwise
  kOwn,
  kNone,
};
// What multiply_tiles() calls for more rows than few; any number of rows.
void multiply_many_rows(Stream& stream, const DenseLayer& layer, SliceBlocks slice_blocks);
// The same by products of warpgroups, for weights of bf16 on kGpusOfWarpgroups
// (kernels/cuda/gpus.h).
void multiply_by_warpgroups(Stream& stream, const DenseLayer& layer);
// Whether multiply_many_rows() takes them as needed: on their GPUs, where they are predicted to be
// faster.
bool takes_warpgroups(const Stream& stream, const DenseLayer& layer);

}  // namespace caption::kernels::cuda
