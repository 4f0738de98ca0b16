// kernels/cuda/tile_gemm.h: what the kernels that multiply more rows than few by tiles of 16-bit
// weights share: their parameters, and x in the weights' type.
#pragma once

#include <cstdint>

#include "kernels/cuda/multiply_tiles.cuh"

namespace caption::kernels::cuda {

struct GemmParams {
  TilesParts parts;
  const std::uint16_t* x;      // aligned to 16 bytes; x_stride and x_columns are multiples of 8
  Packed<float, 4>* partials;  // sums of slices: [slices][blocks][fragments][threads]
  std::int64_t x_stride;
  int x_columns;
  int rows;
  int steps;  // tiles along K
  int row_blocks;
};

inline std::int64_t round_up(std::int64_t size, std::int64_t unit) {
  return (size + unit - 1) / unit * unit;
}

// Of blocks of the shape S (kernels/cuda/tile_block.cuh); without x and partials.
template <class S>
GemmParams gemm_params(const DenseLayer& layer) {
  const int operands = layer.is_swiglu ? 2 : 1;
  const std::int64_t rows = layer.x.dim(0);
  return {.parts = tiles_parts(layer, S::kBlockTiles / operands * kTileSize),
          .x = nullptr,
          .partials = nullptr,
          .x_stride = 0,
          .x_columns = static_cast<int>(round_up(layer.x.dim(1), 8)),
          .rows = static_cast<int>(rows),
          .steps = count_tiles(layer.x.dim(1)),
          .row_blocks = static_cast<int>((rows + S::kBlockRows - 1) / S::kBlockRows)};
}

inline std::int64_t count_blocks(const GemmParams& params) {
  return std::int64_t{params.parts.blocks} * params.row_blocks;
}

// Points params.x to x, or to x rounded to the weights' type in the stream's scratch, unless it has
// that type and rows that copies of 16 bytes can read. Behind it the scratch has `more_bytes` more,
// to which params.partials points.
void take_rows(Stream& stream, const DenseLayer& layer, std::int64_t more_bytes,
               GemmParams& params);

}  // namespace caption::kernels::cuda
