// A block per piece of a row of y.
//
// Traffic  a row of the table and one of y per id. Measured on no GPU.
#include "kernels/embedding.h"

#include "kernels/cuda/code_form.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/tile_layout.h"
#include "kernels/cuda/weight_forms.h"

namespace caption::kernels {
namespace cuda {
namespace {

struct EmbedRowsParams {
  const std::int32_t* ids;
  ConstNumbers table;
  std::int64_t table_stride;
  float* y;
  std::int64_t y_stride;
  int columns;
  Pieces pieces;
};

template <int kCount>
struct EmbedRows {
  static constexpr int kThreads = kElementwiseThreads;
  using Params = EmbedRowsParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int c = p.pieces.column(kCount);
    if (c >= p.columns) return;
    const std::int64_t t = p.pieces.row();
    const std::int64_t id = load(p.ids + t);
    const Packed<float, kCount> row = load_numbers<kCount>(p.table, id * p.table_stride + c);
    store(reinterpret_cast<Packed<float, kCount>*>(p.y + t * p.y_stride + c), row);
  }
};

struct EmbedTilesParams {
  const std::int32_t* ids;
  const std::uint16_t* tiles;
  DType dtype;
  int tiles_per_row;
  float* y;
  std::int64_t y_stride;
  int columns;
  Pieces pieces;
};

// A thread per number: element (n, k) of a tile is in the registers of the lane
// 4 (n % 8) + k % 8 / 2, the register of n / 8 and k / 8, the half of k % 2.
struct EmbedTiles {
  static constexpr int kThreads = kElementwiseThreads;
  using Params = EmbedTilesParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int c = p.pieces.column(1);
    if (c >= p.columns) return;
    const std::int64_t t = p.pieces.row();
    const std::int64_t id = load(p.ids + t);
    const std::int64_t tile = id / kTileSize * p.tiles_per_row + c / kTileSize;
    const int n = static_cast<int>(id % kTileSize);
    const int k = c % kTileSize;
    const int lane = n % 8 * 4 + k % 8 / 2;
    const int half = (n / 8 + k / 8 * 2) * 2 + k % 2;
    const std::uint16_t bits = load(p.tiles + (tile * 32 + lane) * 8 + half);
    store(p.y + t * p.y_stride + c, p.dtype == DType::kBF16 ? widen(BF16{bits}) : widen(F16{bits}));
  }
};

void embed_rows(Stream& stream, ConstView ids, ConstView table, View y) {
  const bool has_packs = allows_packs(table, 4) && allows_packs(y, 4);
  const Pieces pieces = cut_rows(y.dim(1), has_packs ? 4 : 1);
  const EmbedRowsParams params{.ids = static_cast<const std::int32_t*>(ids.raw()),
                               .table = numbers_of(table),
                               .table_stride = table.row_stride(),
                               .y = static_cast<float*>(y.raw()),
                               .y_stride = y.row_stride(),
                               .columns = static_cast<int>(y.dim(1)),
                               .pieces = pieces};
  const Grid grid = grid_of(ids.dim(0), pieces);
  if (has_packs) {
    launch<EmbedRows<4>>(stream, grid, params);
  } else {
    launch<EmbedRows<1>>(stream, grid, params);
  }
}

void embed_tiles(Stream& stream, ConstView ids, const Tiles& table, View y) {
  const Pieces pieces = cut_rows(y.dim(1), 1);
  launch<EmbedTiles>(stream, grid_of(ids.dim(0), pieces),
                     {.ids = static_cast<const std::int32_t*>(ids.raw()),
                      .tiles = static_cast<const std::uint16_t*>(table.begin),
                      .dtype = table.dtype,
                      .tiles_per_row = count_tiles(table.num_columns),
                      .y = static_cast<float*>(y.raw()),
                      .y_stride = y.row_stride(),
                      .columns = static_cast<int>(y.dim(1)),
                      .pieces = pieces});
}

}  // namespace
}  // namespace cuda

namespace impl {

void embedding(Cuda, Stream& stream, ConstView ids, const Weight& table, View y) {
  switch (cuda::DeviceForm::of(table).layout()) {
    case cuda::Layout::kRows:
      return cuda::embed_rows(stream, ids, cuda::RowsForm::of(table).rows(), y);
    case cuda::Layout::kTiles:
      return cuda::embed_tiles(stream, ids, cuda::TilesForm::of(table).tiles(), y);
    case cuda::Layout::kCodes:
      return cuda::unpack_code_rows(stream, ids, cuda::CodesForm::of(table).codes(), y);
  }
}

}  // namespace impl
}  // namespace caption::kernels
