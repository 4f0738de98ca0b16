// kernels/cuda/elementwise.cuh: the shape of kernels that compute each number of a matrix from the
// numbers at its place in others: a block per piece of a row, a pack of numbers per thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"
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

// The numbers that a thread moves at once: 4 where all views that are not empty allow it, else 1.
inline int choose_pack(std::initializer_list<ConstView> views) {
  return std::all_of(views.begin(), views.end(),
                     [](ConstView view) { return view.empty() || allows_packs(view, 4); })
             ? 4
             : 1;
}

// Launches Kernel<4> or Kernel<1>, as `pack` says.
template <template <int> class Kernel>
void launch_packed(Stream& stream, Grid grid, int pack, const typename Kernel<4>::Params& params) {
  if (pack == 4) {
    launch<Kernel<4>>(stream, grid, params);
  } else {
    launch<Kernel<1>>(stream, grid, params);
  }
}

// The same for a kernel whose blocks are pieces of `rows` rows of `columns` numbers; sets
// params.pieces.
template <template <int> class Kernel>
void launch_pieces(Stream& stream, std::int64_t rows, std::int64_t columns, int pack,
                   typename Kernel<4>::Params params) {
  params.pieces = cut_rows(columns, pack);
  launch_packed<Kernel>(stream, grid_of(rows, params.pieces), pack, params);
}

}  // namespace caption::kernels::cuda
