// The input rows of towers that take images of any size.
#include "kernels/grid_patches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "tests/kernels/testing.h"

namespace caption {
namespace {

using kernels::add_grid_positions;
using kernels::im2col_grid;
using kernels::patch_place;
using namespace testing;

TEST_SUITE_BEGIN("kernels/grid_patches");

TEST_CASE("patches are ordered window by window") {
  const kernels::PatchGrid grid = {.rows = 4, .columns = 6, .merge = 2};
  const std::vector<std::vector<std::int64_t>> kPlaces = {{0, 0}, {0, 1}, {1, 0}, {1, 1},
                                                          {0, 2}, {0, 3}, {1, 2}, {1, 3}};
  for (std::size_t k = 0; k < kPlaces.size(); ++k) {
    CHECK(patch_place(grid, static_cast<std::int64_t>(k)).row == kPlaces[k][0]);
    CHECK(patch_place(grid, static_cast<std::int64_t>(k)).column == kPlaces[k][1]);
  }
  CHECK(patch_place(grid, 12).row == 2);
  CHECK(patch_place(grid, 23).column == 5);
}

TEST_CASE("im2col_grid puts every pixel at its place, and repeats the last frame") {
  constexpr std::int64_t kFrames = 3, kChannels = 3, kHeight = 8, kWidth = 12, kPatch = 2;
  const Tensor pixels = random_f32({kFrames, kChannels, kHeight, kWidth}, 5);
  const kernels::PatchSize size = {.frames = 2, .patch_px = kPatch, .merge = 2};
  const kernels::PatchGrid grid = {.rows = 4, .columns = 6, .merge = 2};
  for_each_stream([&](Stream& stream) {
    Tensor y(DType::kF32, {2 * 24, kChannels * 2 * kPatch * kPatch});
    im2col_grid(stream, pixels.view(), size, y.view());
    int different = 0;
    for (std::int64_t r = 0; r < y.dim(0); ++r) {
      const kernels::PatchPlace place = patch_place(grid, r % 24);
      for (std::int64_t e = 0; e < y.dim(1); ++e) {
        const std::int64_t v = e % kPatch, u = e / kPatch % kPatch;
        const std::int64_t f = e / (kPatch * kPatch) % 2, c = e / (2 * kPatch * kPatch);
        const std::int64_t frame = std::min(r / 24 * 2 + f, kFrames - 1);
        const std::int64_t line = place.row * kPatch + u, column = place.column * kPatch + v;
        const std::int64_t at = ((frame * kChannels + c) * kHeight + line) * kWidth + column;
        different += y.as<float>()[r * y.dim(1) + e] != pixels.as<float>()[at];
      }
    }
    CHECK(different == 0);
  });
}

TEST_CASE("positions are interpolated between the corners of the table") {
  constexpr std::int64_t kDim = 7;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Tensor table = random_of(dtype, {25, kDim}, 3);
    const std::vector<double> entries = values(table);
    const kernels::PatchGrid grid = {.rows = 8, .columns = 2, .merge = 2};
    const Tensor before = random_f32({2 * 16, kDim}, 4);
    std::vector<double> want, tolerance;
    for (std::int64_t r = 0; r < 32; ++r) {
      const kernels::PatchPlace place = patch_place(grid, r % 16);
      const double y = static_cast<double>(place.row) * 4 / 7;
      const double x = static_cast<double>(place.column) * 4;
      const auto top = static_cast<std::int64_t>(y), left = static_cast<std::int64_t>(x);
      for (std::int64_t c = 0; c < kDim; ++c) {
        const auto at = [&](std::int64_t i, std::int64_t j) {
          return entries[static_cast<std::size_t>(
              (std::min<std::int64_t>(i, 4) * 5 + std::min<std::int64_t>(j, 4)) * kDim + c)];
        };
        const double s = y - static_cast<double>(top), t = x - static_cast<double>(left);
        const double sum = at(top, left) * (1 - s) * (1 - t) + at(top, left + 1) * (1 - s) * t +
                           at(top + 1, left) * s * (1 - t) + at(top + 1, left + 1) * s * t;
        want.push_back(before.as<float>()[r * kDim + c] + sum);
        // A weight is within 4 units of the place, at most 4, times 2 roundings; four products and
        // sums follow.
        const double largest =
            std::max({std::abs(at(top, left)), std::abs(at(top, left + 1)),
                      std::abs(at(top + 1, left)), std::abs(at(top + 1, left + 1))});
        tolerance.push_back(kUnit * (64 * largest + 2 * std::abs(want.back())));
      }
    }
    for_each_stream([&](Stream& stream) {
      Tensor x = before.clone();
      add_grid_positions(stream, table.view(), grid, x.view());
      check_close(x.as<float>(), want, tolerance);
    });
  }
}

TEST_CASE("sizes that do not fit are refused by name") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor pixels = random_f32({2, 3, 8, 10}, 1);
  Tensor y(DType::kF32, {20, 12});
  CHECK_THROWS_WITH_AS(
      im2col_grid(stream, pixels.view(), {.frames = 1, .patch_px = 2, .merge = 2}, y.view()),
      "im2col_grid: pixels is f32 [2, 3, 8, 10]; wanted multiples of 4 pixels", Error);
  const Tensor table = random_f32({24, 12}, 2);
  CHECK_THROWS_WITH_AS(
      add_grid_positions(stream, table.view(), {.rows = 4, .columns = 5, .merge = 1}, y.view()),
      "add_grid_positions: table has 24 rows; wanted a square number", Error);
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption
