#include <limits>
#include <vector>

#include "base/error.h"
#include "kernels/linear.h"
#include "kernels/merge_patches.h"
#include "kernels/pool_2d.h"
#include "kernels/resize_bilinear.h"
#include "kernels/vision_embed.h"
#include "tests/kernels/testing.h"

using caption::ConstView;
using caption::Device;
using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::kernels::im2col_patches;
using caption::kernels::merge_patches;
using caption::kernels::MergeOrder;
using caption::kernels::pool_2d;
using caption::kernels::Pooling;
using caption::kernels::resize_bilinear;
using caption::kernels::vit_embeddings;
using namespace caption::testing;

TEST_SUITE_BEGIN("kernels/vision");

TEST_CASE("pooling takes whole windows and leaves out the rest") {
  struct Case {
    std::int64_t frames, grid_h, grid_w, channels, stride;
  };
  constexpr Case kCases[] = {{1, 1, 1, 1, 1}, {2, 5, 7, 3, 2}, {1, 9, 4, 17, 3},
                             {3, 4, 4, 5, 1}, {1, 3, 3, 2, 4}, {2, 24, 24, 64, 2}};
  for (const Case& c : kCases) {
    CAPTURE(c.grid_h);
    CAPTURE(c.stride);
    const Tensor x = random_f32({c.frames, c.grid_h, c.grid_w, c.channels}, 1);
    const std::vector<double> xs = values(x);
    const std::int64_t out_h = c.grid_h / c.stride;
    const std::int64_t out_w = c.grid_w / c.stride;
    std::vector<double> means, maxima, tolerance;
    for (std::int64_t f = 0; f < c.frames; ++f) {
      for (std::int64_t o = 0; o < out_h * out_w * c.channels; ++o) {
        const std::int64_t i = o / c.channels / out_w;
        const std::int64_t j = o / c.channels % out_w;
        double sum = 0;
        double magnitude = 0;
        double maximum = -2;
        for (std::int64_t u = 0; u < c.stride * c.stride; ++u) {
          const std::int64_t row = i * c.stride + u / c.stride;
          const std::int64_t column = j * c.stride + u % c.stride;
          const double v =
              xs[((f * c.grid_h + row) * c.grid_w + column) * c.channels + o % c.channels];
          sum += v;
          magnitude += std::abs(v);
          maximum = std::max(maximum, v);
        }
        const auto size = static_cast<double>(c.stride * c.stride);
        means.push_back(sum / size);
        maxima.push_back(maximum);
        // The roundings of a sum of `size` terms and of a quotient.
        tolerance.push_back((size + 1) * kUnit * magnitude / size);
      }
    }
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, {c.frames, out_h, out_w, c.channels});
      pool_2d(stream, x.view(), Pooling::kMean, c.stride, y.view());
      check_close(y.as<float>(), means, tolerance);
      pool_2d(stream, x.view(), Pooling::kMax, c.stride, y.view());
      check_close(y.as<float>(), maxima, std::vector<double>(maxima.size(), 0));
    });
  }
}

TEST_CASE("pooling steps over a class token between the frames") {
  ThreadPool pool(2);
  Stream stream(pool);
  Tensor tokens = random_f32({2, 1 + 16, 3}, 2);
  Tensor patches(DType::kF32, {2, 4, 4, 3});
  for (std::int64_t f = 0; f < 2; ++f) {
    std::copy_n(tokens.as<float>() + f * 51 + 3, 48, patches.as<float>() + f * 48);
  }
  const ConstView strided(tokens.as<float>() + 3, DType::kF32, {2, 4, 4, 3}, 51, Device::kCpu);
  Tensor want(DType::kF32, {2, 2, 2, 3});
  Tensor got(DType::kF32, {2, 2, 2, 3});
  pool_2d(stream, patches.view(), Pooling::kMean, 2, want.view());
  pool_2d(stream, strided, Pooling::kMean, 2, got.view());
  CHECK(same_bits(want, got));
}

TEST_CASE("merging moves each patch of a window to its place in the row") {
  struct Case {
    std::int64_t frames, grid_h, grid_w, channels, stride;
  };
  constexpr Case kCases[] = {{1, 1, 1, 1, 1}, {2, 5, 7, 3, 2}, {1, 9, 4, 17, 3},
                             {3, 4, 4, 5, 1}, {1, 3, 3, 2, 4}, {2, 32, 32, 8, 2}};
  for (const Case& c : kCases) {
    CAPTURE(c.grid_h);
    CAPTURE(c.stride);
    // A class token before the patches of each frame.
    const std::int64_t frame_size = (1 + c.grid_h * c.grid_w) * c.channels;
    const Tensor tokens = random_f32({c.frames, frame_size}, 12);
    const ConstView x(tokens.as<float>() + c.channels, DType::kF32,
                      {c.frames, c.grid_h, c.grid_w, c.channels}, frame_size, Device::kCpu);
    const std::int64_t out_h = c.grid_h / c.stride;
    const std::int64_t out_w = c.grid_w / c.stride;
    const std::int64_t row = c.stride * c.stride * c.channels;
    for_each_stream([&](Stream& stream) {
      Tensor by_patch(DType::kF32, {c.frames, out_h, out_w, row});
      Tensor by_channel(DType::kF32, {c.frames, out_h, out_w, row});
      merge_patches(stream, x, c.stride, MergeOrder::kPatchMajor, by_patch.view());
      merge_patches(stream, x, c.stride, MergeOrder::kChannelMajor, by_channel.view());
      int different = 0;
      for (std::int64_t f = 0; f < c.frames; ++f) {
        for (std::int64_t h = 0; h < out_h * c.stride; ++h) {
          for (std::int64_t w = 0; w < out_w * c.stride; ++w) {
            const std::int64_t to = ((f * out_h + h / c.stride) * out_w + w / c.stride) * row;
            const std::int64_t u = h % c.stride;
            const std::int64_t v = w % c.stride;
            for (std::int64_t k = 0; k < c.channels; ++k) {
              const float want =
                  x.as<float>()[f * frame_size + (h * c.grid_w + w) * c.channels + k];
              different += by_patch.as<float>()[to + (u * c.stride + v) * c.channels + k] != want;
              different += by_channel.as<float>()[to + (k * c.stride + u) * c.stride + v] != want;
            }
          }
        }
      }
      CHECK(different == 0);
    });
  }
}

TEST_CASE("bilinear resizing agrees with double precision, and an equal grid copies") {
  struct Case {
    std::int64_t frames, in_h, in_w, out_h, out_w, channels;
  };
  constexpr Case kCases[] = {{1, 1, 1, 1, 1, 1},     {2, 5, 7, 3, 4, 3},  {1, 27, 27, 14, 14, 9},
                             {1, 24, 24, 12, 12, 5}, {3, 2, 3, 5, 8, 17}, {2, 1, 4, 3, 1, 2}};
  for (const Case& c : kCases) {
    CAPTURE(c.in_h);
    CAPTURE(c.out_h);
    const Tensor x = random_f32({c.frames, c.in_h, c.in_w, c.channels}, 13);
    const auto position = [](std::int64_t i, std::int64_t out, std::int64_t in) {
      const double scale = static_cast<double>(in) / static_cast<double>(out);
      return std::max((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0);
    };
    std::vector<double> want, tolerance;
    for (std::int64_t i = 0; i < c.frames * c.out_h * c.out_w * c.channels; ++i) {
      const double h = position(i / c.channels / c.out_w % c.out_h, c.out_h, c.in_h);
      const double w = position(i / c.channels % c.out_w, c.out_w, c.in_w);
      const auto element = [&](std::int64_t row, std::int64_t column) {
        const std::int64_t frame = i / (c.out_h * c.out_w * c.channels);
        row = std::min(row, c.in_h - 1);
        column = std::min(column, c.in_w - 1);
        return static_cast<double>(
            x.as<float>()[((frame * c.in_h + row) * c.in_w + column) * c.channels +
                          i % c.channels]);
      };
      const auto a = static_cast<std::int64_t>(h);
      const auto b = static_cast<std::int64_t>(w);
      const double s = h - static_cast<double>(a);
      const double t = w - static_cast<double>(b);
      want.push_back((1 - s) * ((1 - t) * element(a, b) + t * element(a, b + 1)) +
                     s * ((1 - t) * element(a + 1, b) + t * element(a + 1, b + 1)));
      // Elements below 1. A position has three roundings of at most in / 2 units, and neighbours
      // differ by at most 2; the weighted sums have about eight roundings.
      tolerance.push_back(kUnit * (8 + 6 * static_cast<double>(c.in_h + c.in_w)));
    }
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, {c.frames, c.out_h, c.out_w, c.channels});
      resize_bilinear(stream, x.view(), y.view());
      check_close(y.as<float>(), want, tolerance);
      Tensor copy(DType::kF32, x.shape());
      resize_bilinear(stream, x.view(), copy.view());
      CHECK(same_bits(copy, x));
    });
  }
}

TEST_CASE("im2col puts each pixel of a patch where a convolution's weight expects it") {
  struct Case {
    std::int64_t frames, height, width, patch;
  };
  constexpr Case kCases[] = {{1, 1, 1, 1}, {2, 6, 8, 2}, {1, 7, 11, 3}, {2, 28, 42, 14}};
  for (const Case& c : kCases) {
    CAPTURE(c.patch);
    const Tensor pixels = random_f32({c.frames, 3, c.height, c.width}, 3);
    const std::int64_t grid_h = c.height / c.patch;
    const std::int64_t grid_w = c.width / c.patch;
    const std::int64_t row = 3 * c.patch * c.patch;
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, {c.frames * grid_h * grid_w, row});
      im2col_patches(stream, pixels.view(), c.patch, y.view());
      int different = 0;
      for (std::int64_t f = 0; f < c.frames; ++f) {
        for (std::int64_t ch = 0; ch < 3; ++ch) {
          for (std::int64_t h = 0; h < grid_h * c.patch; ++h) {
            for (std::int64_t w = 0; w < grid_w * c.patch; ++w) {
              const std::int64_t patch = (f * grid_h + h / c.patch) * grid_w + w / c.patch;
              const std::int64_t at = (ch * c.patch + h % c.patch) * c.patch + w % c.patch;
              different += y.as<float>()[patch * row + at] !=
                           pixels.as<float>()[((f * 3 + ch) * c.height + h) * c.width + w];
            }
          }
        }
      }
      CHECK(different == 0);
    });
  }
}

TEST_CASE("vit_embeddings puts a class token first, if there is one, and adds positions") {
  constexpr std::int64_t kFrames = 3;
  constexpr std::int64_t kPatches = 4;
  constexpr std::int64_t kDim = 10;
  const Tensor patches = random_f32({kFrames * kPatches, kDim}, 4);
  const Tensor class_embedding = random_of(DType::kBF16, {kDim}, 5);
  const std::vector<double> class_row = values(class_embedding);
  for (const std::int64_t class_tokens : {0, 1}) {
    CAPTURE(class_tokens);
    const std::int64_t tokens = kPatches + class_tokens;
    const Tensor positions = random_of(DType::kF16, {tokens, kDim}, 6);
    const std::vector<double> position_rows = values(positions);
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, {kFrames * tokens, kDim});
      vit_embeddings(stream, patches.view(),
                     class_tokens == 1 ? class_embedding.view() : ConstView{}, positions.view(),
                     y.view());
      int different = 0;
      for (std::int64_t r = 0; r < kFrames * tokens; ++r) {
        const std::int64_t token = r % tokens;
        const std::int64_t patch = r / tokens * kPatches + token - class_tokens;
        for (std::int64_t c = 0; c < kDim; ++c) {
          const float base = token < class_tokens ? static_cast<float>(class_row[c])
                                                  : patches.as<float>()[patch * kDim + c];
          const float want = base + static_cast<float>(position_rows[token * kDim + c]);
          different += y.as<float>()[r * kDim + c] != want;
        }
      }
      CHECK(different == 0);
    });
  }
}

TEST_CASE("wrong shapes are refused by name") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor grid = random_f32({1, 4, 4, 2}, 7);
  Tensor small(DType::kF32, {1, 1, 2, 2});
  CHECK_THROWS_WITH_AS(pool_2d(stream, grid.view(), Pooling::kMean, 2, small.view()),
                       "pool_2d: y is f32 [1, 1, 2, 2] on cpu; wanted f32 [1, 2, 2, 2]", Error);
  CHECK_THROWS_WITH_AS(pool_2d(stream, grid.view(), Pooling::kMean, 0, small.view()),
                       "pool_2d: stride is 0; wanted at least 1", Error);
  const Tensor pixels = random_f32({1, 3, 4, 4}, 8);
  Tensor columns(DType::kF32, {4, 11});
  CHECK_THROWS_WITH_AS(im2col_patches(stream, pixels.view(), 2, columns.view()),
                       "im2col_patches: y is f32 [4, 11] on cpu; wanted f32 [4, 12]", Error);
  const Tensor patches = random_f32({7, 2}, 9);
  const Tensor positions = random_f32({5, 2}, 10);
  const Tensor class_embedding = random_f32({2}, 11);
  Tensor y(DType::kF32, {10, 2});
  CHECK_THROWS_WITH_AS(
      vit_embeddings(stream, patches.view(), class_embedding.view(), positions.view(), y.view()),
      "vit_embeddings: 7 patches do not fill frames of 5 positions less the "
      "class token's",
      Error);
  CHECK_THROWS_WITH_AS(vit_embeddings(stream, patches.view(), {}, positions.view(), y.view()),
                       "vit_embeddings: 7 patches do not fill frames of 5 positions", Error);
  CHECK_THROWS_WITH_AS(merge_patches(stream, grid.view(), 2, MergeOrder::kPatchMajor, small.view()),
                       "merge_patches: y is f32 [1, 1, 2, 2] on cpu; wanted f32 [1, 2, 2, 8]",
                       Error);
  CHECK_THROWS_WITH_AS(merge_patches(stream, grid.view(), 0, MergeOrder::kPatchMajor, small.view()),
                       "merge_patches: stride is 0; wanted at least 1", Error);
  Tensor narrow(DType::kF32, {1, 2, 2, 3});
  CHECK_THROWS_WITH_AS(resize_bilinear(stream, grid.view(), narrow.view()),
                       "resize_bilinear: y is f32 [1, 2, 2, 3] on cpu; wanted f32 [1, 2, 2, 2]",
                       Error);
  Tensor nothing(DType::kF32, {1, 0, 2, 2});
  CHECK_THROWS_WITH_AS(resize_bilinear(stream, grid.view(), nothing.view()),
                       "resize_bilinear: a grid is empty: from [1, 4, 4, 2] to [1, 0, 2, 2]",
                       Error);
}

TEST_SUITE_END();
