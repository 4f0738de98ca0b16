// What CUDA computes around the dense layers of towers and projectors has the CPU's bits.
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "kernels/depthwise_conv_2d.h"
#include "kernels/grid_patches.h"
#include "kernels/merge_patches.h"
#include "kernels/pool_2d.h"
#include "kernels/resize_bilinear.h"
#include "kernels/vision_embed.h"
#include "tests/cuda/testing.h"

using caption::ConstView;
using caption::DType;
using caption::Shape;
using caption::Stream;
using caption::Tensor;
using caption::View;
using namespace caption::testing;
namespace kernels = caption::kernels;

namespace {

// An operand, and the stride of its rows on the device; 0 is dense.
struct Operand {
  Tensor tensor;
  std::int64_t stride = 0;
};

// Checks that work(stream, x, y) gives the same bits on the CPU's reference tier and on the
// emulator. y has its contents before, or is not written where they are empty.
template <class Work>
void check_same_bits(const Operand& x, const Operand& y, bool is_written, Work work) {
  Tensor want = is_written ? y.tensor.clone() : Tensor(y.tensor.dtype(), y.tensor.shape());
  run_on_cpu([&](Stream& stream) { work(stream, x.tensor.view(), want.view()); });
  const DeviceTensor device_x(x.tensor, x.stride);
  for (const std::uint64_t seed : kSeeds) {
    const DeviceTensor written(y.tensor, y.stride);
    const DeviceTensor unwritten(y.tensor.dtype(), y.tensor.shape(), y.stride);
    const DeviceTensor& device_y = is_written ? written : unwritten;
    run_emulated(seed, [&](Stream& stream) { work(stream, device_x.view(), device_y.view()); });
    CHECK(same_bits(device_y.to_host(), want));
  }
}

template <class Work>
void check_same_bits(const Operand& x, const Shape& y, Work work, std::int64_t y_stride = 0) {
  check_same_bits(x, {.tensor = Tensor(DType::kF32, y), .stride = y_stride}, false, work);
}

// Frames of grids; the channels of a case are below, at and beyond a block's 256 threads, and
// multiples of 4 or not. A device's frames lie `gap` numbers apart.
struct Grid {
  std::int64_t frames, grid_h, grid_w, channels, gap;

  Shape shape() const { return {frames, grid_h, grid_w, channels}; }
  // Random numbers, among them zeros of both signs.
  Operand operand(std::uint32_t seed) const {
    Tensor x = random_f32(shape(), seed);
    for (std::int64_t i = 0; i < x.num_elements(); i += 5) {
      x.as<float>()[i] = i % 2 == 0 ? 0.0F : -0.0F;
    }
    return {.tensor = std::move(x), .stride = grid_h * grid_w * channels + gap};
  }
};

}  // namespace

TEST_SUITE_BEGIN("cuda/vision");

TEST_CASE("pooling has the CPU's bits, also over frames with class tokens between them") {
  constexpr Grid kGrids[] = {{1, 1, 1, 1, 0},  {2, 5, 7, 3, 0},    {3, 4, 5, 8, 8},
                             {2, 3, 3, 17, 1}, {1, 4, 2, 1028, 0}, {2, 2, 3, 260, 2}};
  for (const Grid& grid : kGrids) {
    for (const std::int64_t stride : {1, 2, 3}) {
      if (stride > grid.grid_h || stride > grid.grid_w) continue;
      CAPTURE(grid.channels);
      CAPTURE(stride);
      const Shape y = {grid.frames, grid.grid_h / stride, grid.grid_w / stride, grid.channels};
      for (const kernels::Pooling pooling : {kernels::Pooling::kMean, kernels::Pooling::kMax}) {
        check_same_bits(grid.operand(1), y, [&](Stream& stream, ConstView from, View to) {
          kernels::pool_2d(stream, from, pooling, stride, to);
        });
      }
    }
  }
}

TEST_CASE("the greatest of zeros of both signs is the first") {
  Tensor x(DType::kF32, {1, 4, 2, 1});
  for (std::int64_t i = 0; i < 8; ++i) {
    x.as<float>()[i] = i < 3 || i == 7 ? -0.0F : 0.0F;
  }
  check_same_bits({.tensor = std::move(x)}, Shape{1, 2, 1, 1},
                  [](Stream& stream, ConstView from, View to) {
                    kernels::pool_2d(stream, from, kernels::Pooling::kMax, 2, to);
                  });
}

TEST_CASE("adaptive means have the CPU's bits over whole, overlapping and repeated windows") {
  struct Case {
    Grid grid;
    std::int64_t out_h, out_w;
  };
  constexpr Case kCases[] = {{{2, 5, 7, 3, 0}, 3, 2},  {{1, 7, 4, 12, 0}, 1, 1},
                             {{3, 2, 3, 4, 0}, 4, 5},  {{1, 6, 6, 1028, 0}, 3, 6},
                             {{2, 1, 1, 17, 0}, 1, 1}, {{2, 4, 3, 260, 0}, 2, 2}};
  for (const Case& c : kCases) {
    CAPTURE(c.grid.channels);
    check_same_bits(
        c.grid.operand(2), Shape{c.grid.frames, c.out_h, c.out_w, c.grid.channels},
        [](Stream& stream, ConstView x, View y) { kernels::adaptive_mean_2d(stream, x, y); });
  }
}

TEST_CASE("merging moves the CPU's numbers in both orders") {
  constexpr Grid kGrids[] = {{1, 1, 1, 1, 0},  {2, 5, 7, 3, 0},   {3, 4, 5, 8, 8},
                             {2, 3, 3, 17, 1}, {1, 4, 2, 516, 0}, {2, 3, 2, 260, 2}};
  for (const Grid& grid : kGrids) {
    for (const std::int64_t stride : {1, 2, 3}) {
      if (stride > grid.grid_h || stride > grid.grid_w) continue;
      CAPTURE(grid.channels);
      CAPTURE(stride);
      const Shape y = {grid.frames, grid.grid_h / stride, grid.grid_w / stride,
                       stride * stride * grid.channels};
      for (const auto order :
           {kernels::MergeOrder::kPatchMajor, kernels::MergeOrder::kChannelMajor}) {
        check_same_bits(grid.operand(3), y, [&](Stream& stream, ConstView from, View to) {
          kernels::merge_patches(stream, from, stride, order, to);
        });
      }
    }
  }
}

TEST_CASE("bilinear resizing has the CPU's bits") {
  struct Case {
    Grid grid;
    std::int64_t out_h, out_w;
  };
  constexpr Case kCases[] = {{{1, 1, 1, 1, 0}, 1, 1},   {{2, 5, 7, 3, 0}, 3, 4},
                             {{1, 9, 9, 8, 0}, 5, 5},   {{3, 2, 3, 17, 0}, 5, 8},
                             {{2, 1, 4, 260, 0}, 3, 1}, {{1, 3, 2, 1028, 0}, 2, 3}};
  for (const Case& c : kCases) {
    CAPTURE(c.grid.channels);
    CAPTURE(c.out_h);
    check_same_bits(
        c.grid.operand(4), Shape{c.grid.frames, c.out_h, c.out_w, c.grid.channels},
        [](Stream& stream, ConstView x, View y) { kernels::resize_bilinear(stream, x, y); });
  }
}

TEST_CASE("depthwise convolution has the CPU's bits at borders and inside") {
  struct Case {
    Grid grid;
    std::int64_t size;
    DType dtype;
  };
  constexpr Case kCases[] = {
      {{1, 1, 1, 1, 0}, 3, DType::kF32},   {{2, 5, 7, 3, 0}, 3, DType::kF16},
      {{1, 4, 4, 36, 0}, 3, DType::kBF16}, {{3, 3, 2, 5, 0}, 5, DType::kF32},
      {{1, 6, 6, 33, 0}, 1, DType::kF32},  {{1, 2, 9, 4, 0}, 15, DType::kF32},
      {{2, 3, 3, 260, 0}, 3, DType::kF32}, {{1, 2, 2, 1028, 0}, 3, DType::kF32}};
  for (const Case& c : kCases) {
    CAPTURE(c.grid.channels);
    CAPTURE(c.size);
    const Tensor weight = random_of(c.dtype, {c.grid.channels, 1, c.size, c.size}, 6);
    const DeviceTensor device_weight(weight);
    check_same_bits(c.grid.operand(5), c.grid.shape(), [&](Stream& stream, ConstView x, View y) {
      const bool is_host = stream.device() == caption::Device::kCpu;
      kernels::depthwise_conv_2d(stream, x, is_host ? weight.view() : device_weight.view(), y);
    });
  }
}

TEST_CASE("im2col moves the pixels of each patch, and not those beside the last ones") {
  struct Case {
    std::int64_t frames, height, width, patch, gap, y_gap;
  };
  constexpr Case kCases[] = {{1, 1, 1, 1, 0, 0},    {2, 7, 11, 3, 0, 0},   {2, 9, 16, 4, 4, 0},
                             {2, 8, 18, 4, 0, 4},   {1, 28, 44, 14, 0, 0}, {2, 28, 42, 14, 2, 6},
                             {2, 16, 32, 16, 0, 3}, {3, 20, 24, 20, 1, 0}};
  for (const Case& c : kCases) {
    CAPTURE(c.patch);
    CAPTURE(c.width);
    const Operand pixels{.tensor = random_f32({c.frames, 3, c.height, c.width}, 7),
                         .stride = 3 * c.height * c.width + c.gap};
    const std::int64_t columns = 3 * c.patch * c.patch;
    const Shape y = {c.frames * (c.height / c.patch) * (c.width / c.patch), columns};
    const auto work = [&](Stream& stream, ConstView from, View to) {
      kernels::im2col_patches(stream, from, c.patch, to);
    };
    check_same_bits(pixels, y, work, columns + c.y_gap);
  }
}

TEST_CASE("im2col_grid orders windows of patches and repeats the last frame") {
  struct Case {
    std::int64_t frames, height, width;
    kernels::PatchSize size;
  };
  constexpr Case kCases[] = {{3, 12, 18, {.frames = 2, .patch_px = 3, .merge = 2}},
                             {4, 16, 24, {.frames = 2, .patch_px = 4, .merge = 2}},
                             {1, 28, 56, {.frames = 2, .patch_px = 14, .merge = 2}},
                             {5, 6, 9, {.frames = 3, .patch_px = 1, .merge = 3}},
                             {2, 48, 16, {.frames = 1, .patch_px = 16, .merge = 1}}};
  for (const Case& c : kCases) {
    CAPTURE(c.size.patch_px);
    const std::int64_t patch = c.size.patch_px;
    const std::int64_t images = (c.frames + c.size.frames - 1) / c.size.frames;
    const Shape y = {images * (c.height / patch) * (c.width / patch),
                     3 * c.size.frames * patch * patch};
    check_same_bits({.tensor = random_f32({c.frames, 3, c.height, c.width}, 8)}, y,
                    [&](Stream& stream, ConstView from, View to) {
                      kernels::im2col_grid(stream, from, c.size, to);
                    });
  }
}

TEST_CASE("interpolated positions have the CPU's bits") {
  struct Case {
    std::int64_t side, images, dim, table_gap;
    kernels::PatchGrid grid;
    DType dtype;
  };
  constexpr Case kCases[] = {{1, 2, 3, 0, {.rows = 2, .columns = 2, .merge = 1}, DType::kF32},
                             {4, 1, 8, 0, {.rows = 1, .columns = 7, .merge = 1}, DType::kBF16},
                             {5, 2, 12, 4, {.rows = 4, .columns = 6, .merge = 2}, DType::kF16},
                             {6, 1, 260, 1, {.rows = 9, .columns = 3, .merge = 3}, DType::kF32},
                             {3, 1, 1028, 0, {.rows = 4, .columns = 2, .merge = 2}, DType::kF32}};
  for (const Case& c : kCases) {
    CAPTURE(c.side);
    const Operand table{.tensor = random_of(c.dtype, {c.side * c.side, c.dim}, 9),
                        .stride = c.dim + c.table_gap};
    const Operand x{.tensor = random_f32({c.images * c.grid.num_patches(), c.dim}, 10)};
    check_same_bits(table, x, true, [&](Stream& stream, ConstView entries, View rows) {
      kernels::add_grid_positions(stream, entries, c.grid, rows);
    });
  }
}

TEST_CASE("vit_embeddings has the CPU's bits with and without a class token") {
  struct Case {
    std::int64_t frames, patches, dim, stride;
    DType dtype;
  };
  constexpr Case kCases[] = {{1, 1, 1, 0, DType::kF32},
                             {3, 4, 10, 11, DType::kF16},
                             {2, 3, 12, 16, DType::kBF16},
                             {2, 2, 1028, 0, DType::kF32}};
  for (const Case& c : kCases) {
    for (const std::int64_t class_tokens : {0, 1}) {
      CAPTURE(c.dim);
      CAPTURE(class_tokens);
      const std::int64_t tokens = c.patches + class_tokens;
      const Tensor positions = random_of(c.dtype, {tokens, c.dim}, 11);
      const Tensor class_embedding = random_of(DType::kBF16, {c.dim}, 12);
      const DeviceTensor device_positions(positions, c.stride);
      const DeviceTensor device_class(class_embedding);
      const Operand patches{.tensor = random_f32({c.frames * c.patches, c.dim}, 13),
                            .stride = c.stride};
      check_same_bits(
          patches, Shape{c.frames * tokens, c.dim}, [&](Stream& stream, ConstView x, View y) {
            const bool is_host = stream.device() == caption::Device::kCpu;
            ConstView first =
                is_host ? ConstView(class_embedding.view()) : ConstView(device_class.view());
            if (class_tokens == 0) first = {};
            kernels::vit_embeddings(stream, x, first,
                                    is_host ? positions.view() : device_positions.view(), y);
          });
    }
  }
}

TEST_CASE("aligned grids move no byte twice over, and 16 at a time") {
  const DeviceTensor x(random_f32({2, 4, 4, 1024}, 14));
  const DeviceTensor pooled(DType::kF32, {2, 2, 2, 1024});
  const DeviceTensor merged(DType::kF32, {2, 2, 2, 4096});
  const DeviceTensor y(DType::kF32, {2, 4, 4, 1024});
  const DeviceTensor weight(random_f32({1024, 1, 3, 3}, 15));
  const DeviceTensor pixels(random_f32({2, 3, 32, 64}, 16));
  const DeviceTensor columns(DType::kF32, {16, 768});
  const DeviceTensor table(random_f32({9, 1024}, 17));
  const DeviceTensor class_token(random_f32({1024}, 18));
  const DeviceTensor positions(random_f32({17, 1024}, 19));
  const DeviceTensor embedded(DType::kF32, {34, 1024});
  check_wastes_nothing(
      [&](Stream& stream) {
        kernels::pool_2d(stream, x.view(), kernels::Pooling::kMean, 2, pooled.view());
        kernels::pool_2d(stream, x.view(), kernels::Pooling::kMax, 2, pooled.view());
        kernels::adaptive_mean_2d(stream, x.view(), pooled.view());
        kernels::merge_patches(stream, x.view(), 2, kernels::MergeOrder::kPatchMajor,
                               merged.view());
        kernels::resize_bilinear(stream, x.view(), pooled.view());
        kernels::im2col_patches(stream, pixels.view(), 16, columns.view());
        kernels::add_grid_positions(stream, table.view(), {.rows = 4, .columns = 4, .merge = 2},
                                    x.view().reshape({32, 1024}));
        kernels::vit_embeddings(stream, x.view().reshape({32, 1024}), class_token.view(),
                                positions.view(), embedded.view());
      },
      16);
  // These load numbers that lie apart one by one, each sector once.
  check_wastes_nothing(
      [&](Stream& stream) {
        kernels::merge_patches(stream, x.view(), 2, kernels::MergeOrder::kChannelMajor,
                               merged.view());
        kernels::depthwise_conv_2d(stream, x.view(), weight.view(), y.view());
      },
      4);
}

TEST_SUITE_END();
