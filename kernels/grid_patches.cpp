#include "kernels/grid_patches.h"

#include <cmath>
#include <string>

#include "backend/dispatch.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void im2col_grid(Stream& stream, ConstView pixels, const PatchSize& size, View y) {
  const internal::Check check("im2col_grid", stream);
  check.rank("pixels", pixels, 4);
  check.f32("pixels", pixels, pixels.shape());
  if (size.frames < 1 || size.patch_px < 1 || size.merge < 1) {
    check.fail("patches of " + std::to_string(size.frames) + " frames, " +
               std::to_string(size.patch_px) + " pixels, merged by " + std::to_string(size.merge));
  }
  const std::int64_t unit_px = size.patch_px * size.merge;
  if (pixels.dim(2) % unit_px != 0 || pixels.dim(3) % unit_px != 0) {
    check.fail("pixels is f32 " + pixels.shape().to_string() + "; wanted multiples of " +
               std::to_string(unit_px) + " pixels");
  }
  const std::int64_t images = (pixels.dim(0) + size.frames - 1) / size.frames;
  const std::int64_t patches = (pixels.dim(2) / size.patch_px) * (pixels.dim(3) / size.patch_px);
  check.f32("y", y,
            {images * patches, pixels.dim(1) * size.frames * size.patch_px * size.patch_px});
  dispatch(stream.device(),
           [&](auto device) { impl::im2col_grid(device, stream, pixels, size, y); });
}

void add_grid_positions(Stream& stream, ConstView table, const PatchGrid& grid, View x) {
  const internal::Check check("add_grid_positions", stream);
  check.rank("table", table, 2);
  check.rank("x", x, 2);
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(table.dim(0))));
  if (side < 1 || side * side != table.dim(0)) {
    check.fail("table has " + std::to_string(table.dim(0)) + " rows; wanted a square number");
  }
  if (grid.merge < 1 || grid.rows < 1 || grid.columns < 1 || grid.rows % grid.merge != 0 ||
      grid.columns % grid.merge != 0 || x.dim(0) % grid.num_patches() != 0) {
    check.fail(std::to_string(x.dim(0)) + " rows do not fill images of " +
               std::to_string(grid.rows) + "x" + std::to_string(grid.columns) + " patches");
  }
  check.floating("table", table, {table.dim(0), x.dim(1)});
  check.f32("x", x, x.shape());
  check.dense("x", x);
  dispatch(stream.device(),
           [&](auto device) { impl::add_grid_positions(device, stream, table, grid, x); });
}

}  // namespace caption::kernels
