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

// Sums of rows and features that have scales: scaled = sum_of(i, g, e) * (row's * feature's), where
// e is the element of the fragment of the tile i and the group g.
template <class S, class SumOf>
CAPTION_DEVICE void scale_sums(const CodeParams& p, const BlockPlace& place, SumOf sum_of,
                               Sums<S>& scaled) {
  const int feature_warp = warp_index() % S::kFeatureWarps;
  const int row_warp = warp_index() / S::kFeatureWarps;
  const int operands = p.is_swiglu ? 2 : 1;
  float of_rows[S::kGroups][2];
  CAPTION_UNROLL
  for (int g = 0; g < S::kGroups; ++g) {
    CAPTION_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int group = row_warp * S::kGroups + g;
      const int row = place.first_row + group * 8 + lane_index() % 4 * 2 + half;
      of_rows[g][half] = row < p.rows ? load(p.x_scales + row) : 0;
    }
  }
  CAPTION_UNROLL
  for (int i = 0; i < S::kTiles; ++i) {
    const int block_tile = feature_warp * S::kTiles + i;
    const auto& part = p.parts.part[place.part + block_tile % operands];
    const int first = (place.first_tile + block_tile / operands) * kTileSize;
    float of_features[2] = {};
    CAPTION_UNROLL
    for (int half = 0; half < 2; ++half) {
      if (first >= part.output.features) continue;
      of_features[half] = load(part.weight.rows + first + lane_index() / 4 + half * 8);
    }
    CAPTION_UNROLL
    for (int g = 0; g < S::kGroups; ++g) {
      CAPTION_UNROLL
      for (int e = 0; e < 4; ++e) {
        scaled[i][g].sum[e] = sum_of(i, g, e) * (of_rows[g][e % 2] * of_features[e / 2]);
      }
    }
  }
}

}  // namespace caption::kernels::cuda
