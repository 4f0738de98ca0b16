// The operations of convolutional projectors: depthwise convolution, adaptive pooling, and the
// functions between dense layers.
#include <doctest/doctest.h>

#include <vector>

#include "base/error.h"
#include "kernels/activation.h"
#include "kernels/depthwise_conv_2d.h"
#include "kernels/linear.h"
#include "kernels/pool_2d.h"
#include "kernels/weight.h"
#include "tests/kernels/testing.h"

using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::kernels::adaptive_mean_2d;
using caption::kernels::add_silu;
using caption::kernels::depthwise_conv_2d;
using caption::kernels::sigmoid_scale;
using caption::kernels::silu;
using namespace caption::testing;

namespace {

double silu_of(double x) { return x / (1 + std::exp(-x)); }

// The relative error of x / (1 + exp(-x)) in f32: exp() is within 4 units, the sum and the quotient
// round once each; x itself has the error `of_x`.
double silu_tolerance(double x, double of_x = 0) {
  return 8 * kUnit * std::abs(silu_of(x)) + 1.1 * of_x + 0x1p-140;
}

}  // namespace

TEST_SUITE_BEGIN("kernels/convolution");

TEST_CASE("depthwise convolution agrees with double precision at borders and inside") {
  struct Case {
    std::int64_t frames, grid_h, grid_w, channels, size;
    DType dtype;
  };
  constexpr Case kCases[] = {{1, 1, 1, 1, 3, DType::kF32},   {2, 5, 7, 3, 3, DType::kF32},
                             {1, 4, 4, 17, 3, DType::kBF16}, {3, 3, 2, 5, 5, DType::kF16},
                             {1, 6, 6, 33, 1, DType::kF32},  {1, 2, 9, 4, 7, DType::kF32}};
  for (const Case& c : kCases) {
    CAPTURE(c.grid_w);
    CAPTURE(c.size);
    const Tensor x = random_f32({c.frames, c.grid_h, c.grid_w, c.channels}, 1);
    const Tensor weight = random_of(c.dtype, {c.channels, 1, c.size, c.size}, 2);
    const std::vector<double> xs = values(x);
    const std::vector<double> weights = values(weight);
    std::vector<double> want, tolerance;
    for (std::int64_t o = 0; o < x.num_elements(); ++o) {
      const std::int64_t channel = o % c.channels;
      const std::int64_t j = o / c.channels % c.grid_w;
      const std::int64_t i = o / c.channels / c.grid_w % c.grid_h;
      const std::int64_t frame = o / c.channels / c.grid_w / c.grid_h;
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t tap = 0; tap < c.size * c.size; ++tap) {
        const std::int64_t row = i + tap / c.size - c.size / 2;
        const std::int64_t column = j + tap % c.size - c.size / 2;
        if (row < 0 || row >= c.grid_h || column < 0 || column >= c.grid_w) continue;
        const double term =
            xs[((frame * c.grid_h + row) * c.grid_w + column) * c.channels + channel] *
            weights[channel * c.size * c.size + tap];
        sum += term;
        magnitude += std::abs(term);
      }
      want.push_back(sum);
      // Each term is rounded at most once as a product and once per addition.
      tolerance.push_back(static_cast<double>(c.size * c.size + 1) * kUnit * magnitude);
    }
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, x.shape());
      depthwise_conv_2d(stream, x.view(), weight.view(), y.view());
      check_close(y.as<float>(), want, tolerance);
    });
  }
}

TEST_CASE("a frame's convolution has the same bits alone and with others") {
  ThreadPool three(3), one(1);
  Stream together(three), alone(one);
  const Tensor x = random_f32({4, 6, 5, 40}, 3);
  const Tensor weight = random_f32({40, 1, 3, 3}, 4);
  Tensor whole(DType::kF32, x.shape());
  Tensor frames(DType::kF32, x.shape());
  depthwise_conv_2d(together, x.view(), weight.view(), whole.view());
  for (std::int64_t frame = 0; frame < 4; ++frame) {
    depthwise_conv_2d(alone, x.view().rows(frame, 1), weight.view(), frames.view().rows(frame, 1));
  }
  CHECK(same_bits(whole, frames));
}

TEST_CASE("adaptive pooling takes the windows of torch, also overlapping and repeated ones") {
  struct Case {
    std::int64_t frames, grid_h, grid_w, out_h, out_w, channels;
  };
  constexpr Case kCases[] = {{1, 24, 24, 8, 8, 16}, {2, 5, 5, 3, 3, 7}, {1, 7, 4, 1, 1, 9},
                             {1, 2, 3, 4, 5, 3},    {3, 1, 1, 1, 1, 2}, {1, 6, 6, 6, 6, 5}};
  for (const Case& c : kCases) {
    CAPTURE(c.grid_h);
    CAPTURE(c.out_h);
    const Tensor x = random_f32({c.frames, c.grid_h, c.grid_w, c.channels}, 5);
    const std::vector<double> xs = values(x);
    std::vector<double> want, tolerance;
    for (std::int64_t o = 0; o < c.frames * c.out_h * c.out_w * c.channels; ++o) {
      const std::int64_t j = o / c.channels % c.out_w;
      const std::int64_t i = o / c.channels / c.out_w % c.out_h;
      const std::int64_t frame = o / c.channels / c.out_w / c.out_h;
      double sum = 0;
      double magnitude = 0;
      double count = 0;
      for (std::int64_t row = 0; row < c.grid_h; ++row) {
        for (std::int64_t column = 0; column < c.grid_w; ++column) {
          // row is in [floor(i * grid_h / out_h), ceil((i + 1) * grid_h / out_h)).
          if ((row + 1) * c.out_h <= i * c.grid_h || row * c.out_h >= (i + 1) * c.grid_h) continue;
          if ((column + 1) * c.out_w <= j * c.grid_w || column * c.out_w >= (j + 1) * c.grid_w)
            continue;
          const double term =
              xs[((frame * c.grid_h + row) * c.grid_w + column) * c.channels + o % c.channels];
          sum += term;
          magnitude += std::abs(term);
          ++count;
        }
      }
      want.push_back(sum / count);
      tolerance.push_back((count + 1) * kUnit * magnitude / count);
    }
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, {c.frames, c.out_h, c.out_w, c.channels});
      adaptive_mean_2d(stream, x.view(), y.view());
      check_close(y.as<float>(), want, tolerance);
    });
  }
}

TEST_CASE("silu, add_silu and sigmoid_scale agree with double precision, in place too") {
  Tensor x = random_f32({6, 37}, 6);
  for (std::int64_t i = 0; i < x.num_elements(); ++i) x.as<float>()[i] *= 12;
  const Tensor residual = random_f32({6, 37}, 7);
  const Tensor gate = random_f32({2, 37}, 8);
  const std::vector<double> xs = values(x);
  const std::vector<double> residuals = values(residual);
  const std::vector<double> gates = values(gate);
  std::vector<double> silus, sums, scaled, silu_bounds, sum_bounds, scaled_bounds;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    silus.push_back(silu_of(xs[i]));
    silu_bounds.push_back(silu_tolerance(xs[i]));
    const double sum = xs[i] + residuals[i];
    sums.push_back(silu_of(sum));
    sum_bounds.push_back(silu_tolerance(sum, kUnit * std::abs(sum)));
    const std::size_t frame = i / 37 / 3;
    scaled.push_back(xs[i] / (1 + std::exp(-gates[frame * 37 + i % 37])));
    scaled_bounds.push_back(8 * kUnit * std::abs(scaled.back()));
  }
  for_each_stream([&](Stream& stream) {
    Tensor y = x.clone();
    silu(stream, y.view(), y.view());
    check_close(y.as<float>(), silus, silu_bounds);
    add_silu(stream, x.view(), residual.view(), y.view());
    check_close(y.as<float>(), sums, sum_bounds);
    y = x.clone();
    sigmoid_scale(stream, y.view().reshape({2, 3, 37}), gate.view(), y.view().reshape({2, 3, 37}));
    check_close(y.as<float>(), scaled, scaled_bounds);
  });
}

TEST_CASE("linear_silu and linear_relu are the layer followed by its function") {
  const Tensor x = random_f32({5, 19}, 9);
  const Tensor weight = random_f32({33, 19}, 10);
  const Tensor bias = random_f32({33}, 11);
  for_each_stream([&](Stream& stream) {
    const caption::kernels::Weight placed = caption::kernels::place_stored(stream, weight.view());
    Tensor plain(DType::kF32, {5, 33});
    Tensor found(DType::kF32, {5, 33});
    Tensor wanted(DType::kF32, {5, 33});
    caption::kernels::linear(stream, x.view(), placed, bias.view(), plain.view());
    silu(stream, plain.view(), wanted.view());
    caption::kernels::linear_silu(stream, x.view(), placed, bias.view(), found.view());
    CHECK(same_bits(found, wanted));
    for (std::int64_t i = 0; i < plain.num_elements(); ++i) {
      wanted.as<float>()[i] = std::max(plain.as<float>()[i], 0.0F);
    }
    caption::kernels::linear_relu(stream, x.view(), placed, bias.view(), found.view());
    CHECK(std::equal(found.as<float>(), found.as<float>() + found.num_elements(),
                     wanted.as<float>()));
  });
}

TEST_CASE("operands that do not fit are refused") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor x = random_f32({1, 4, 4, 6}, 1);
  Tensor y(DType::kF32, {1, 4, 4, 6});
  const Tensor even = random_f32({6, 1, 2, 2}, 1);
  const Tensor narrow = random_f32({5, 1, 3, 3}, 1);
  CHECK_THROWS_AS(depthwise_conv_2d(stream, x.view(), even.view(), y.view()), Error);
  CHECK_THROWS_AS(depthwise_conv_2d(stream, x.view(), narrow.view(), y.view()), Error);
  Tensor other(DType::kF32, {1, 2, 2, 5});
  CHECK_THROWS_AS(adaptive_mean_2d(stream, x.view(), other.view()), Error);
  const Tensor gate = random_f32({2, 6}, 1);
  CHECK_THROWS_AS(sigmoid_scale(stream, x.view().reshape({1, 16, 6}), gate.view(),
                                y.view().reshape({1, 16, 6})),
                  Error);
}

TEST_SUITE_END();
