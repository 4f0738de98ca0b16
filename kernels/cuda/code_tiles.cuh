// kernels/cuda/code_tiles.cuh: how a layer with codes is divided among blocks of many rows.
#pragma once

#include <cstdint>

#include "kernels/cuda/code_ring.cuh"
#include "kernels/cuda/tile_block.cuh"

namespace caption::kernels::cuda {

struct CodeTilesParams {
  CodeParams codes;
  int row_blocks;
};

// Large blocks that are enough for the multiprocessors of most cards; with fewer, small ones are
// more.
inline constexpr std::int64_t kEnoughBlocks = 96;

// Host: divides the layer among blocks of a GemmShape.
template <class S>
CodeTilesParams divided(CodeParams params) {
  divide_parts(params.parts, S::kBlockTiles * kTileSize / (params.is_swiglu ? 2 : 1));
  return {.codes = params, .row_blocks = (params.rows + S::kBlockRows - 1) / S::kBlockRows};
}

inline std::int64_t count_blocks(const CodeTilesParams& params) {
  return std::int64_t{params.codes.parts.blocks} * params.row_blocks;
}

// Host: launches one of two kernels, which differ in Kernel::Shape, their GemmShape. `blocks` is
// not kFewRows.
template <class Large, class Small>
void launch_tiles(Stream& stream, const CodeParams& params, CodeBlocks blocks) {
  const auto large = divided<typename Large::Shape>(params);
  const bool fills_large =
      3 * params.rows > 2 * Large::Shape::kBlockRows && count_blocks(large) >= kEnoughBlocks;
  const bool is_large =
      blocks == CodeBlocks::kLarge || (blocks == CodeBlocks::kAsNeeded && fills_large);
  if (is_large) {
    return launch<Large>(stream, {.x = static_cast<unsigned>(count_blocks(large))}, large);
  }
  const auto small = divided<typename Small::Shape>(params);
  launch<Small>(stream, {.x = static_cast<unsigned>(count_blocks(small))}, small);
}

}  // namespace caption::kernels::cuda
