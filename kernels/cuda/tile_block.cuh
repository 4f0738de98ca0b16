// kernels/cuda/tile_block.cuh: the blocks of kernels that multiply many rows: which features and
// rows a block computes, the sums of its warps, and how they are stored.
#pragma once

#include <cstdint>

#include "kernels/cuda/parts.cuh"
#include "kernels/cuda/primitives.cuh"
#include "kernels/cuda/tile_layout.h"

namespace caption::kernels::cuda {

inline constexpr int kGroupedRowBlocks = 8;

// The warps of a block are kFeatureWarps x kRowWarps; a warp computes kTiles tiles of features of
// kGroups groups of 8 rows. Of SwiGLU, tiles of gate and up alternate.
template <int kTiles_, int kGroups_, int kFeatureWarps_, int kRowWarps_, int kStages_>
struct GemmShape {
  static constexpr int kTiles = kTiles_;
  static constexpr int kGroups = kGroups_;
  static constexpr int kFeatureWarps = kFeatureWarps_;
  static constexpr int kRowWarps = kRowWarps_;
  static constexpr int kStages = kStages_;
  static constexpr int kThreads = 32 * kFeatureWarps * kRowWarps;
  static constexpr int kBlockTiles = kTiles * kFeatureWarps;
  static constexpr int kBlockRows = 8 * kGroups * kRowWarps;
  // Groups of each warp that Exchange holds at a time.
  static constexpr int kExchangedGroups = 1;
};

struct BlockPlace {
  int part;
  int first_tile;  // first tile of the part's features
  int first_row;
};

// Blocks are numbered so that kGroupedRowBlocks blocks of rows follow one another with the same
// features. `operands` is 2 for SwiGLU, otherwise 1.
template <class S, class Operand>
CAPTION_DEVICE BlockPlace place_of_block(const Parts<Operand>& parts, int row_blocks,
                                         int operands) {
  const int of_group = kGroupedRowBlocks * parts.blocks;
  const int first_row_block = block_x() / of_group * kGroupedRowBlocks;
  const int left = row_blocks - first_row_block;
  const int grouped = left < kGroupedRowBlocks ? left : kGroupedRowBlocks;
  const int feature_block = block_x() % of_group / grouped;
  const int row_block = first_row_block + block_x() % of_group % grouped;
  const int part = parts.part_of(feature_block);
  return {
      .part = part,
      .first_tile = (feature_block - parts.part[part].first_block) * (S::kBlockTiles / operands),
      .first_row = row_block * S::kBlockRows};
}

template <class S>
using Sums = FragmentC[S::kTiles][S::kGroups];

// Adds the sums of a slice to the totals, and begins the next slice.
template <class S>
CAPTION_DEVICE void add_slice(Sums<S>& sums, Sums<S>& totals) {
  CAPTION_UNROLL
  for (int i = 0; i < S::kTiles; ++i) {
    CAPTION_UNROLL
    for (int g = 0; g < S::kGroups; ++g) {
      CAPTION_UNROLL
      for (int e = 0; e < 4; ++e) {
        totals[i][g].sum[e] += sums[i][g].sum[e];
        sums[i][g].sum[e] = 0;
      }
    }
  }
}

// Sums on their way from the fragments of warps to rows of y: kExchangedGroups groups of each warp
// at a time. The stride keeps the eight features and four pairs of rows of a fragment in different
// banks.
template <class S>
struct Exchange {
  float sum[8 * S::kRowWarps * S::kExchangedGroups][kTileSize * S::kBlockTiles + 4];
};

// Stores a block's sums.
template <class S, int kOperands, class Operand>
CAPTION_DEVICE void store_sums(const Parts<Operand>& parts, int rows, const BlockPlace& place,
                               Exchange<S>& exchange, const Sums<S>& sums) {
  constexpr int kTilesStored = S::kBlockTiles / kOperands;
  constexpr int kExchanged = S::kExchangedGroups;
  static_assert(S::kGroups % kExchanged == 0);
  const Output& output = parts.part[place.part].output;
  const int feature_warp = warp_index() % S::kFeatureWarps;
  const int row_warp = warp_index() / S::kFeatureWarps;
  CAPTION_UNROLL
  for (int first = 0; first < S::kGroups; first += kExchanged) {
    sync_block();
    CAPTION_UNROLL
    for (int g = 0; g < kExchanged; ++g) {
      CAPTION_UNROLL
      for (int i = 0; i < S::kTiles; ++i) {
        CAPTION_UNROLL
        for (int e = 0; e < 4; ++e) {
          const int tile = feature_warp * S::kTiles + i;
          exchange.sum[(row_warp * kExchanged + g) * 8 + lane_index() % 4 * 2 + e % 2]
                      [tile * kTileSize + lane_index() / 4 + e / 2 * 8] = sums[i][first + g].sum[e];
        }
      }
    }
    sync_block();
    // A warp stores 16 features of two rows, four rows apart, at a time.
    CAPTION_NO_UNROLL
    for (int i = warp_index(); i < kTilesStored * 4 * S::kRowWarps * kExchanged;
         i += S::kThreads / 32) {
      const int tile = i % kTilesStored;
      const int octet = i / kTilesStored / 4;  // of the exchange: of a warp of rows, and a group
      const int row_of_octet = i / kTilesStored % 4 + lane_index() / 16 * 4;
      const int octet_of_block = octet / kExchanged * S::kGroups + first + octet % kExchanged;
      const int row = place.first_row + octet_of_block * 8 + row_of_octet;
      const int feature = (place.first_tile + tile) * kTileSize + lane_index() % 16;
      if (row >= rows || feature >= output.features) continue;
      const float* const found =
          exchange.sum[octet * 8 + row_of_octet] + tile * kOperands * kTileSize + lane_index() % 16;
      if constexpr (kOperands == 1) {
        store_sum(output, row, feature, *found);
      } else {
        store_swiglu(output, parts.part[1].output, row, feature, found[0], found[kTileSize]);
      }
    }
  }
}

}  // namespace caption::kernels::cuda
