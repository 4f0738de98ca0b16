#include "kernels/grid_patches.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/parallel.h"
#include "tensor/dtype.h"

namespace caption::kernels::impl {
namespace {

// The two table entries along an axis between which a patch lies, and the weight of the second.
struct Between {
  std::int64_t low = 0;
  std::int64_t high = 0;
  float weight = 0;
};

// As torch.linspace(0, side - 1, count) in f32, which counts its second half from the end.
std::vector<Between> places_along_axis(std::int64_t side, std::int64_t count) {
  const auto end = static_cast<float>(side - 1);
  const float step = count > 1 ? end / static_cast<float>(count - 1) : 0.0F;
  std::vector<Between> places;
  for (std::int64_t i = 0; i < count; ++i) {
    float at = 0;
    if (count > 1) {
      at = i < count / 2 ? step * static_cast<float>(i)
                         : end - step * static_cast<float>(count - 1 - i);
    }
    const auto low = static_cast<std::int64_t>(at);
    places.push_back(
        {.low = low, .high = std::min(low + 1, side - 1), .weight = at - static_cast<float>(low)});
  }
  return places;
}

}  // namespace

void im2col_grid(Cpu, Stream& stream, ConstView pixels, const PatchSize& size, View y) {
  const std::int64_t channels = pixels.dim(1);
  const std::int64_t height = pixels.dim(2);
  const std::int64_t width = pixels.dim(3);
  const std::int64_t patch_px = size.patch_px;
  const PatchGrid grid = {
      .rows = height / patch_px, .columns = width / patch_px, .merge = size.merge};
  cpu::parallel_for(stream, y.dim(0), y.dim(1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t image = r / grid.num_patches();
      const PatchPlace place = patch_place(grid, r % grid.num_patches());
      float* to = y.as<float>() + r * y.row_stride();
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t f = 0; f < size.frames; ++f) {
          const std::int64_t frame = std::min(image * size.frames + f, pixels.dim(0) - 1);
          const float* const plane =
              pixels.as<float>() + frame * pixels.row_stride() + c * height * width;
          for (std::int64_t u = 0; u < patch_px; ++u) {
            const float* const line =
                plane + (place.row * patch_px + u) * width + place.column * patch_px;
            to = std::copy_n(line, patch_px, to);
          }
        }
      }
    }
  });
}

void add_grid_positions(Cpu, Stream& stream, ConstView table, const PatchGrid& grid, View x) {
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(table.dim(0))));
  const std::int64_t dim = x.dim(1);
  const std::vector<Between> rows = places_along_axis(side, grid.rows);
  const std::vector<Between> columns = places_along_axis(side, grid.columns);
  dispatch_float(table.dtype(), [&](auto tag) {
    const auto* const entries = table.as<decltype(tag)>();
    const auto entry = [&](std::int64_t row, std::int64_t column) {
      return entries + (row * side + column) * table.row_stride();
    };
    constexpr std::int64_t kOperationsPerElement = 8;
    const auto add = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const PatchPlace place = patch_place(grid, r % grid.num_patches());
        const Between& row = rows[static_cast<std::size_t>(place.row)];
        const Between& column = columns[static_cast<std::size_t>(place.column)];
        const float w00 = (1 - row.weight) * (1 - column.weight);
        const float w01 = (1 - row.weight) * column.weight;
        const float w10 = row.weight * (1 - column.weight);
        const float w11 = row.weight * column.weight;
        const auto* const t00 = entry(row.low, column.low);
        const auto* const t01 = entry(row.low, column.high);
        const auto* const t10 = entry(row.high, column.low);
        const auto* const t11 = entry(row.high, column.high);
        float* const to = x.as<float>() + r * dim;
        for (std::int64_t c = 0; c < dim; ++c) {
          to[c] += to_float(t00[c]) * w00 + to_float(t01[c]) * w01 + to_float(t10[c]) * w10 +
                   to_float(t11[c]) * w11;
        }
      }
    };
    cpu::parallel_for(stream, x.dim(0), dim * kOperationsPerElement, add);
  });
}

}  // namespace caption::kernels::impl
