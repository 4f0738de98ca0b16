// Traffic  the bytes of a row in and out, an index per row. Measured on no GPU.
#include "kernels/rows.h"

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/numbers.cuh"

namespace caption::kernels::cuda {
namespace {

enum class Moves { kFrom, kTo, kAddTo };  // what an index names

struct RowsParams {
  const void* x;
  void* y;
  const std::int32_t* rows;
  std::int64_t x_stride;  // in units
  std::int64_t y_stride;
  int units;  // of a row
  Pieces pieces;
};

// Unit is what a thread moves at once; for kAddTo a pack of f32.
template <class Unit, Moves kMoves>
struct MoveRows {
  static constexpr int kThreads = kElementwiseThreads;
  using Params = RowsParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int c = p.pieces.column(1);
    if (c >= p.units) return;
    const std::int64_t i = p.pieces.row();
    const std::int64_t named = load(p.rows + i);
    const std::int64_t from = kMoves == Moves::kFrom ? named : i;
    const std::int64_t to = kMoves == Moves::kFrom ? i : named;
    Unit unit = load(static_cast<const Unit*>(p.x) + from * p.x_stride + c);
    Unit* const target = static_cast<Unit*>(p.y) + to * p.y_stride + c;
    if constexpr (kMoves == Moves::kAddTo) {
      constexpr int kCount = static_cast<int>(sizeof(Unit) / sizeof(float));
      const Unit before = load(target);
      for (int k = 0; k < kCount; ++k) unit.x[k] = before.x[k] + unit.x[k];
    }
    store(target, unit);
  }
};

template <class Unit, Moves kMoves>
void launch_move(Stream& stream, ConstView x, ConstView rows, View y) {
  const auto element_bytes = static_cast<std::int64_t>(dtype_size_bytes(x.dtype()));
  const auto units = [element_bytes](std::int64_t elements) {
    return elements * element_bytes / static_cast<std::int64_t>(sizeof(Unit));
  };
  const Pieces pieces = cut_rows(units(x.dim(1)), 1);
  launch<MoveRows<Unit, kMoves>>(stream, grid_of(rows.dim(0), pieces),
                                 {.x = x.raw(),
                                  .y = y.raw(),
                                  .rows = static_cast<const std::int32_t*>(rows.raw()),
                                  .x_stride = units(x.row_stride()),
                                  .y_stride = units(y.row_stride()),
                                  .units = static_cast<int>(units(x.dim(1))),
                                  .pieces = pieces});
}

// Moves as many bytes at once as both views allow, at least those of an element.
template <Moves kMoves>
void move_rows(Stream& stream, ConstView x, ConstView rows, View y) {
  const std::size_t element_bytes = dtype_size_bytes(x.dtype());
  const auto allows = [&](std::size_t unit_bytes) {
    const auto count = static_cast<std::int64_t>(unit_bytes / element_bytes);
    return allows_packs(x, count) && allows_packs(y, count);
  };
  if (allows(16)) return launch_move<Bytes16, kMoves>(stream, x, rows, y);
  if (allows(8)) return launch_move<Packed<float, 2>, kMoves>(stream, x, rows, y);
  if (allows(4)) return launch_move<std::uint32_t, kMoves>(stream, x, rows, y);
  if (allows(2)) return launch_move<std::uint16_t, kMoves>(stream, x, rows, y);
  launch_move<std::uint8_t, kMoves>(stream, x, rows, y);
}

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

void gather_rows(Cuda, Stream& stream, ConstView x, ConstView rows, View y) {
  cuda::move_rows<cuda::Moves::kFrom>(stream, x, rows, y);
}

void scatter_rows(Cuda, Stream& stream, ConstView x, ConstView rows, View y) {
  cuda::move_rows<cuda::Moves::kTo>(stream, x, rows, y);
}

void add_rows(Cuda, Stream& stream, ConstView x, ConstView rows, View y) {
  if (cuda::allows_packs(x, 4) && cuda::allows_packs(y, 4)) {
    cuda::launch_move<cuda::Packed<float, 4>, cuda::Moves::kAddTo>(stream, x, rows, y);
  } else {
    cuda::launch_move<cuda::Packed<float, 1>, cuda::Moves::kAddTo>(stream, x, rows, y);
  }
}

}  // namespace caption::kernels::impl
