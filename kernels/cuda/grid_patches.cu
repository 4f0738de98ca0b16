// A thread per pack of numbers of a row.
//
// Traffic  im2col_grid: 4 bytes per number in and out. A row of a patch is patch_px numbers: with a
//          patch_px that is no multiple of 8 it begins inside of a sector, whose rest L1 or L2
//          holds for the patch beside it. add_grid_positions: 8 bytes per number; the table is in
//          L2.
// Measured on no GPU.
#include "kernels/grid_patches.h"

#include <cmath>

#include "kernels/cuda/elementwise.cuh"

namespace caption::kernels::cuda {
namespace {

// PatchGrid, and patch_place() of it.
struct Grid2d {
  int rows;
  int columns;
  int merge;
};
struct Place {
  int row;
  int column;

  CAPTION_DEVICE Place(const Grid2d& grid, int patch) {
    const int window = patch / (grid.merge * grid.merge);
    const int inside = patch % (grid.merge * grid.merge);
    const int windows_per_row = grid.columns / grid.merge;
    row = window / windows_per_row * grid.merge + inside / grid.merge;
    column = window % windows_per_row * grid.merge + inside % grid.merge;
  }
};

Grid2d grid_2d(const PatchGrid& grid) {
  return {.rows = static_cast<int>(grid.rows),
          .columns = static_cast<int>(grid.columns),
          .merge = static_cast<int>(grid.merge)};
}

struct Im2colParams {
  const float* pixels;  // [num_frames, channels, height, width]
  float* y;
  std::int64_t frame_stride;  // elements between frames of pixels
  std::int64_t y_stride;
  Grid2d grid;
  int frames_per_image;
  int num_frames;
  int height;
  int width;
  int patch_px;
  int columns;  // columns of y
  Pieces pieces;
};

template <int kCount>
struct Im2col {
  static constexpr int kThreads = kElementwiseThreads;
  using Params = Im2colParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int column = p.pieces.column(kCount);
    if (column >= p.columns) return;
    const int row = p.pieces.row();
    const int num_patches = p.grid.rows * p.grid.columns;
    const Place place(p.grid, row % num_patches);
    const int line =
        column / p.patch_px;  // counts the lines of a patch: [channels, frames, patch_px]
    const int channel = line / p.patch_px / p.frames_per_image;
    const int wanted =
        row / num_patches * p.frames_per_image + line / p.patch_px % p.frames_per_image;
    const std::int64_t frame = wanted < p.num_frames ? wanted : p.num_frames - 1;
    const std::int64_t pixel_row =
        static_cast<std::int64_t>(channel) * p.height + place.row * p.patch_px + line % p.patch_px;
    const float* const from = p.pixels + frame * p.frame_stride + pixel_row * p.width +
                              place.column * p.patch_px + column % p.patch_px;
    using Pack = Packed<float, kCount>;
    store(reinterpret_cast<Pack*>(p.y + row * p.y_stride + column),
          load(reinterpret_cast<const Pack*>(from)));
  }
};

// torch.linspace(0, side - 1, count) in f32, which counts its second half from the end.
struct Linspace {
  int count;
  float end;
  float step;  // 0 for a count of 1
};

// The two table entries along an axis between which a patch lies, and the weight of the second.
struct Between {
  int low;
  int high;
  float weight;

  CAPTION_DEVICE Between(const Linspace& axis, int side, int i) {
    const float at = i < axis.count / 2 || axis.count == 1
                         ? axis.step * static_cast<float>(i)
                         : axis.end - axis.step * static_cast<float>(axis.count - 1 - i);
    low = static_cast<int>(at);
    high = low + 1 < side ? low + 1 : side - 1;
    weight = at - static_cast<float>(low);
  }
};

struct PositionsParams {
  ConstNumbers table;  // [side * side, dim]
  float* x;            // [rows, dim]
  std::int64_t table_stride;
  Grid2d grid;
  Linspace rows;
  Linspace columns;
  int side;
  int dim;
  Pieces pieces;
};

template <int kCount>
struct AddGridPositions {
  static constexpr int kThreads = kElementwiseThreads;
  using Params = PositionsParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int c = p.pieces.column(kCount);
    if (c >= p.dim) return;
    const Place place(p.grid, p.pieces.row() % (p.grid.rows * p.grid.columns));
    const Between row(p.rows, p.side, place.row);
    const Between column(p.columns, p.side, place.column);
    using Pack = Packed<float, kCount>;
    const auto entry = [&](int i, int j) {
      return load_numbers<kCount>(p.table, (i * p.side + j) * p.table_stride + c);
    };
    const Pack t00 = entry(row.low, column.low);
    const Pack t01 = entry(row.low, column.high);
    const Pack t10 = entry(row.high, column.low);
    const Pack t11 = entry(row.high, column.high);
    const float w00 = (1 - row.weight) * (1 - column.weight);
    const float w01 = (1 - row.weight) * column.weight;
    const float w10 = row.weight * (1 - column.weight);
    const float w11 = row.weight * column.weight;
    auto* const to =
        reinterpret_cast<Pack*>(p.x + static_cast<std::int64_t>(p.pieces.row()) * p.dim + c);
    Pack x = load(to);
    for (int k = 0; k < kCount; ++k) {
      x.x[k] += t00.x[k] * w00 + t01.x[k] * w01 + t10.x[k] * w10 + t11.x[k] * w11;
    }
    store(to, x);
  }
};

Linspace linspace(std::int64_t side, std::int64_t count) {
  const auto end = static_cast<float>(side - 1);
  return {.count = static_cast<int>(count),
          .end = end,
          .step = count > 1 ? end / static_cast<float>(count - 1) : 0.0F};
}

// The numbers that a thread moves at once; those of a pack do not leave a row of a patch.
int choose_line_pack(ConstView pixels, std::int64_t patch_px, ConstView y) {
  for (const int pack : {4, 2}) {
    if (patch_px % pack == 0 && allows_packs(pixels, pack) && allows_packs(y, pack)) return pack;
  }
  return 1;
}

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

void im2col_grid(Cuda, Stream& stream, ConstView pixels, const PatchSize& size, View y) {
  const PatchGrid grid = {.rows = pixels.dim(2) / size.patch_px,
                          .columns = pixels.dim(3) / size.patch_px,
                          .merge = size.merge};
  const int pack = cuda::choose_line_pack(pixels, size.patch_px, y);
  const cuda::Im2colParams params{.pixels = static_cast<const float*>(pixels.raw()),
                                  .y = static_cast<float*>(y.raw()),
                                  .frame_stride = pixels.row_stride(),
                                  .y_stride = y.row_stride(),
                                  .grid = cuda::grid_2d(grid),
                                  .frames_per_image = static_cast<int>(size.frames),
                                  .num_frames = static_cast<int>(pixels.dim(0)),
                                  .height = static_cast<int>(pixels.dim(2)),
                                  .width = static_cast<int>(pixels.dim(3)),
                                  .patch_px = static_cast<int>(size.patch_px),
                                  .columns = static_cast<int>(y.dim(1)),
                                  .pieces = cuda::cut_rows(y.dim(1), pack)};
  const cuda::Grid blocks = cuda::grid_of(y.dim(0), params.pieces);
  if (pack == 2) {  // patches of 14 pixels
    cuda::launch<cuda::Im2col<2>>(stream, blocks, params);
  } else {
    cuda::launch_packed<cuda::Im2col>(stream, blocks, pack, params);
  }
}

void add_grid_positions(Cuda, Stream& stream, ConstView table, const PatchGrid& grid, View x) {
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(table.dim(0))));
  cuda::launch_pieces<cuda::AddGridPositions>(stream, x.dim(0), x.dim(1),
                                              cuda::choose_pack({table, x}),
                                              {.table = cuda::numbers_of(table),
                                               .x = static_cast<float*>(x.raw()),
                                               .table_stride = table.row_stride(),
                                               .grid = cuda::grid_2d(grid),
                                               .rows = cuda::linspace(side, grid.rows),
                                               .columns = cuda::linspace(side, grid.columns),
                                               .side = static_cast<int>(side),
                                               .dim = static_cast<int>(x.dim(1)),
                                               .pieces = {}});
}

}  // namespace caption::kernels::impl
