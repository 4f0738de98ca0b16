// kernels/cuda/elementwise.cuh: the shape of kernels that compute each number of a matrix from the
// numbers at its place in others: a block per piece of a row, a pack of numbers per thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/primitives.cuh"

namespace caption::kernels::cuda {

inline constexpr int kElementwiseThreads = 256;

// Rows cut into pieces of kElementwiseThreads packs.
struct Pieces {
  int per_row;

  CAPTION_DEVICE int row() const { return block_x() / per_row; }
  // The first element of the thread's pack, which may be beyond the row.
  CAPTION_DEVICE int column(int pack_size) const {
    return (block_x() % per_row * kElementwiseThreads + thread_index()) * pack_size;
  }
};

inline Pieces cut_rows(std::int64_t row_size, std::int64_t pack_size) {
  const std::int64_t piece = kElementwiseThreads * pack_size;
  return {static_cast<int>(std::max<std::int64_t>(1, (row_size + piece - 1) / piece))};
}

inline Grid grid_of(std::int64_t rows, Pieces pieces) {
  return {.x = static_cast<unsigned>(rows * pieces.per_row)};
}

}  // namespace caption::kernels::cuda
