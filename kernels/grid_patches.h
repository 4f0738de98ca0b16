// kernels/grid_patches.h: the input rows of a vision tower that takes images of any size, such as
// those of Qwen-VL.
//
// An image is a grid of rows x columns patches, both multiples of `merge`. Its patches are ordered
// window by window, windows of merge x merge patches row by row, and row by row inside a window, so
// that the patches that become one vision token are consecutive.
// Source: transformers 4.57.6, video_processing_qwen3_vl.py and modeling_qwen3_vl.py.
// Throws Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include <cstdint>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

struct PatchGrid {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t merge = 1;

  std::int64_t num_patches() const { return rows * columns; }
  friend bool operator==(const PatchGrid&, const PatchGrid&) = default;
};

// Position of a patch in the grid.
struct PatchPlace {
  std::int64_t row = 0;
  std::int64_t column = 0;
};
// Returns the place of patch `index` in the order above.
inline PatchPlace patch_place(const PatchGrid& grid, std::int64_t index) {
  const std::int64_t window = index / (grid.merge * grid.merge);
  const std::int64_t inside = index % (grid.merge * grid.merge);
  const std::int64_t windows_per_row = grid.columns / grid.merge;
  return {.row = window / windows_per_row * grid.merge + inside / grid.merge,
          .column = window % windows_per_row * grid.merge + inside % grid.merge};
}

// Patches of `frames` consecutive frames and patch_px x patch_px pixels.
struct PatchSize {
  std::int64_t frames = 1;
  std::int64_t patch_px = 0;
  std::int64_t merge = 1;
};

// Images of size.frames frames; the last frame is repeated when the frames do not fill an image.
//   y[g * n + k, ((c * F + f) * p + u) * p + v] = pixels[min(g * F + f, frames - 1), c, i * p + u,
//                                                        j * p + v]
//   n patches per image, (i, j) the place of patch k, F = size.frames, p = size.patch_px
// pixels [frames, channels, H, W] f32, H and W multiples of p * merge, the first axis may be
// strided; y [ceil(frames / F) * n, channels * F * p * p] f32, rows may be strided; written whole.
void im2col_grid(Stream& stream, ConstView pixels, const PatchSize& size, View y);

// Adds to each row of x the position embedding of its patch, interpolated bilinearly between the
// entries of a square table so that the corners of grid and table coincide.
//   x[g * n + k, :] += ((T[a, c] (1 - s) (1 - t) + T[a, d] (1 - s) t) + T[b, c] s (1 - t)) + T[b,
//   d] s t a + s = i (side - 1) / (rows - 1), b = min(a + 1, side - 1), in f32; c, d, t along
//   columns
// table [side * side, dim] f32, bf16 or f16; x [images * grid.num_patches(), dim] f32, dense.
void add_grid_positions(Stream& stream, ConstView table, const PatchGrid& grid, View x);

namespace impl {
void im2col_grid(Cpu device, Stream& stream, ConstView pixels, const PatchSize& size, View y);
void im2col_grid(Cuda device, Stream& stream, ConstView pixels, const PatchSize& size, View y);
void add_grid_positions(Cpu device, Stream& stream, ConstView table, const PatchGrid& grid, View x);
void add_grid_positions(Cuda device, Stream& stream, ConstView table, const PatchGrid& grid,
                        View x);
}  // namespace impl

}  // namespace caption::kernels
