// kernels/cuda/tile_layout.h: extents of a weight's tiles, and the order of sums over them.
//
// The order of a sum depends on K only, so a row has the same bits alone and beside any number of
// others: K is cut into slices of 1,024 columns, tensor cores sum a slice from 0 in the order of k,
// and slices are added, from 0, in their order.
#pragma once

#include <cstdint>

namespace caption::kernels::cuda {

inline constexpr int kTileSize = 16;  // features, and columns, of a tile of 16-bit weights
inline constexpr int kSliceColumns = 1024;
inline constexpr int kSliceSteps = kSliceColumns / kTileSize;

constexpr int count_tiles(std::int64_t size) {
  return static_cast<int>((size + kTileSize - 1) / kTileSize);
}
constexpr int count_slices(std::int64_t columns) {
  return static_cast<int>((columns + kSliceColumns - 1) / kSliceColumns);
}

}  // namespace caption::kernels::cuda
