// Placing weights on a GPU.
//
// Traffic  a matrix's bytes to the device, and once in and out there. Measured on no GPU.
#include "kernels/weight.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/math.h"
#include "kernels/cuda/code_form.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/tile_layout.h"
#include "kernels/cuda/upload.h"
#include "kernels/cuda/weight_forms.h"

namespace caption::kernels {
namespace cuda {
namespace {

constexpr int kPackThreads = 128;
// Bytes of the rows that are on the device beside the tiles that are made of them.
constexpr std::int64_t kPieceBytes = std::int64_t{2} << 20;

struct PackParams {
  ConstNumbers rows;
  Bytes16* tiles;
  std::int64_t row_stride;
  int features;
  int columns;
  int tiles_per_row;
  int lanes;  // 32 * tiles of the rows
};

// A thread per lane of a tile.
template <class T>
struct PackTiles {
  static constexpr int kThreads = kPackThreads;
  using Params = PackParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int i = block_x() * kPackThreads + thread_index();
    if (i >= p.lanes) return;
    const int lane = i % 32;
    const int feature = i / 32 / p.tiles_per_row * kTileSize + lane / 4;
    const int column = i / 32 % p.tiles_per_row * kTileSize + lane % 4 * 2;
    Bytes16 fragment;
    for (int r = 0; r < 4; ++r) {
      const int n = feature + r % 2 * 8;
      const int k = column + r / 2 * 8;
      fragment.word[r] = element(p, n, k) | element(p, n, k + 1) << 16;
    }
    store(p.tiles + i, fragment);
  }

  static CAPTION_DEVICE std::uint32_t element(const Params& p, int n, int k) {
    if (n >= p.features || k >= p.columns) return 0;
    T rounded;
    narrow(load_numbers<1>(p.rows, n * p.row_stride + k).x[0], rounded);
    return rounded.bits;
  }
};

// Packs `rows` as tiles of their own from `to` on.
void pack_rows(Stream& stream, ConstView rows, DType dtype, Bytes16* to) {
  const int tiles_per_row = count_tiles(rows.dim(1));
  const int lanes = count_tiles(rows.dim(0)) * tiles_per_row * 32;
  const PackParams params{.rows = numbers_of(rows),
                          .tiles = to,
                          .row_stride = rows.row_stride(),
                          .features = static_cast<int>(rows.dim(0)),
                          .columns = static_cast<int>(rows.dim(1)),
                          .tiles_per_row = tiles_per_row,
                          .lanes = lanes};
  const Grid grid{.x = static_cast<unsigned>((lanes + kPackThreads - 1) / kPackThreads)};
  if (dtype == DType::kBF16) {
    launch<PackTiles<BF16>>(stream, grid, params);
  } else {
    launch<PackTiles<F16>>(stream, grid, params);
  }
}

std::size_t bytes_of(ConstView rows, std::int64_t count) {
  return static_cast<std::size_t>(count * rows.dim(1)) * dtype_size_bytes(rows.dtype());
}

// Rows of a piece of at most kPieceBytes: a multiple of a tile's, so that a piece is whole tiles.
std::int64_t piece_rows(ConstView rows) {
  const auto row_bytes = rows.dim(1) * static_cast<std::int64_t>(dtype_size_bytes(rows.dtype()));
  return std::max<std::int64_t>(kPieceBytes / row_bytes / kTileSize, 1) * kTileSize;
}

// Uploads rows of the host piece by piece and packs them as tiles of `dtype`.
Weight place_tiles(Stream& stream, ConstView rows, DType dtype) {
  const std::int64_t num_features = rows.dim(0);
  const std::int64_t num_columns = rows.dim(1);
  Tensor memory(DType::kU8, {static_cast<std::int64_t>(tiles_bytes(num_features, num_columns))},
                stream.device());
  const std::int64_t rows_at_once = std::min(piece_rows(rows), num_features);
  WeightUpload upload(stream, bytes_of(rows, rows_at_once));
  auto* const tiles = static_cast<Bytes16*>(memory.view().raw());
  for (std::int64_t first = 0; first < num_features; first += rows_at_once) {
    const std::int64_t count = std::min(rows_at_once, num_features - first);
    collect_rows(stream, rows.rows(first, count), upload->take(bytes_of(rows, count)));
    const ConstView piece(upload->copy(), rows.dtype(), {count, num_columns}, stream.device());
    pack_rows(stream, piece, dtype, tiles + first / kTileSize * count_tiles(num_columns) * 32);
  }
  upload.finish();
  const Tiles packed{
      .begin = tiles, .dtype = dtype, .num_features = num_features, .num_columns = num_columns};
  return Weight(num_features, num_columns, stream.device(),
                std::make_unique<const TilesForm>(packed, std::move(memory)));
}

// Uploads rows of the host piece by piece, as they are.
Tensor place_rows(Stream& stream, ConstView rows) {
  Tensor memory(rows.dtype(), rows.shape(), stream.device());
  const std::int64_t rows_at_once = std::min(piece_rows(rows), rows.dim(0));
  WeightUpload upload(stream, bytes_of(rows, rows_at_once));
  for (std::int64_t first = 0; first < rows.dim(0); first += rows_at_once) {
    const std::int64_t count = std::min(rows_at_once, rows.dim(0) - first);
    collect_rows(stream, rows.rows(first, count), upload->take(bytes_of(rows, count)));
    upload->copy_to(static_cast<std::byte*>(memory.view().rows(first, count).raw()));
  }
  upload.finish();
  return memory;
}

}  // namespace

bool RowsForm::is_like(const WeightForm& other) const {
  return static_cast<const DeviceForm&>(other).layout() == Layout::kRows;
}

std::string RowsForm::describe() const { return std::string(dtype_name(rows_.dtype())) + " rows"; }

std::int64_t TilesForm::size_bytes() const {
  return static_cast<std::int64_t>(tiles_bytes(tiles_.num_features, tiles_.num_columns));
}

bool TilesForm::is_like(const WeightForm& other) const {
  const auto& form = static_cast<const DeviceForm&>(other);
  return form.layout() == Layout::kTiles &&
         static_cast<const TilesForm&>(form).tiles_.dtype == tiles_.dtype;
}

std::string TilesForm::describe() const { return std::string(dtype_name(tiles_.dtype)) + " tiles"; }

std::size_t tiles_bytes(std::int64_t num_features, std::int64_t num_columns) {
  return static_cast<std::size_t>(count_tiles(num_features)) *
         static_cast<std::size_t>(count_tiles(num_columns)) * 32 * sizeof(Bytes16);
}

Tiles pack_tiles(Stream& stream, ConstView rows, DType dtype, void* to) {
  CAPTION_CHECK(rows.shape().rank() == 2 && dtype_size_bytes(dtype) == 2,
                "pack_tiles: rows are not [N, K], or tiles not of bf16 or f16");
  pack_rows(stream, rows, dtype, static_cast<Bytes16*>(to));
  return {.begin = to, .dtype = dtype, .num_features = rows.dim(0), .num_columns = rows.dim(1)};
}

}  // namespace cuda

namespace impl {

std::unique_ptr<const WeightForm> borrow_rows(Cuda, ConstView rows) {
  return std::make_unique<const cuda::RowsForm>(rows);
}

Weight place_stored(Cuda, Stream& stream, ConstView rows) {
  return Weight(rows.dim(0), rows.dim(1), stream.device(),
                std::make_unique<const cuda::RowsForm>(cuda::place_rows(stream, rows)));
}

Weight place_bf16(Cuda, Stream& stream, ConstView rows) {
  return cuda::place_tiles(stream, rows, cuda::dtype_of_products(stream.context()));
}

std::int64_t placed_bytes(Cuda, const Context& /*context*/, std::int64_t num_features,
                          std::int64_t num_columns, MatrixFormat format, DType stored) {
  switch (format) {
    case MatrixFormat::kBF16:
      return static_cast<std::int64_t>(cuda::tiles_bytes(num_features, num_columns));
    case MatrixFormat::kInt8:
    case MatrixFormat::kInt8Row:
    case MatrixFormat::kE4M3Row:
    case MatrixFormat::kInt4:
    case MatrixFormat::kInt4A8:
    case MatrixFormat::kNf4: return cuda::placed_code_bytes(num_features, num_columns, format);
    case MatrixFormat::kStored:
    case MatrixFormat::kF16:
    case MatrixFormat::kNf4Double:
    case MatrixFormat::kAwq: break;
  }
  return matrix_bytes(num_features, num_columns, format, stored);
}

bool rounds_input(Cuda, const Context& /*context*/, MatrixFormat format) {
  return format != MatrixFormat::kStored;
}

}  // namespace impl
}  // namespace caption::kernels
