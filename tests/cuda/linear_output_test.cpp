// What a dense layer makes of its sums, of all forms and kernels.
#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

#include "kernels/swiglu.h"
#include "tests/cuda/dense_testing.h"

using caption::ConstView;
using caption::DType;
using caption::Stream;
using caption::Tensor;
using caption::View;
using caption::kernels::LinearPart;
using caption::kernels::Weight;
using caption::kernels::cuda::Layout;
using namespace caption::testing;

namespace {

// Rows for each kernel and number of rows per block. No size is a multiple of a tile's.
struct Case {
  Layout layout;
  std::int64_t rows;
};
constexpr Case kCases[] = {{Layout::kTiles, 3},  {Layout::kTiles, 13}, {Layout::kTiles, 33},
                           {Layout::kTiles, 70}, {Layout::kRows, 5},   {Layout::kRows, 66}};
constexpr std::int64_t kFeatures = 69;
constexpr std::int64_t kColumns = 45;

struct Numbers {
  double y;
  double roundings;  // bound of y's relative error, in units of 2^-24
};

// exp() of a rounded power is off by the power's size in roundings.
Numbers logistic(double x, double power) {
  return {x / (1 + std::exp(power)), 8 + 8 * std::abs(power)};
}

using Activation = Numbers (*)(double);
using Layer = void (*)(Stream&, ConstView, const Weight&, ConstView, View);
struct ActivatedLayer {
  Layer layer;
  Activation activation;
};
const ActivatedLayer kActivated[] = {
    {caption::kernels::linear_gelu,
     [](double g) {
       return Numbers{0.5 * g * std::erfc(-g / std::numbers::sqrt2), 16 + 6 * g * g};
     }},
    {caption::kernels::linear_gelu_tanh,
     [](double g) {
       const double cubic = g + 0.044715 * g * g * g;
       return logistic(g, -2 * std::sqrt(2 * std::numbers::inv_pi) * cubic);
     }},
    {caption::kernels::linear_quick_gelu, [](double g) { return logistic(g, -1.702 * g); }},
    {caption::kernels::linear_silu, [](double g) { return logistic(g, -g); }},
    {caption::kernels::linear_relu, [](double g) {
       return Numbers{std::max(g, 0.0), 0};
     }}};

// The sums with their bias, whose addition is a rounding.
ExpectedSums biased(ExpectedSums sums, const Tensor& bias) {
  const std::vector<double> bs = values(bias);
  for (std::size_t i = 0; i < sums.sum.size(); ++i) {
    sums.sum[i] += bs[i % bs.size()];
    sums.tolerance[i] += kUnit * std::abs(sums.sum[i]);
  }
  return sums;
}

struct Operands {
  explicit Operands(const Case& c)
      : x(random_f32({c.rows, kColumns}, 21)),
        rows(random_of(DType::kBF16, {kFeatures, kColumns}, 22)),
        bias(random_of(DType::kF16, {kFeatures}, 23)),
        weight(rows, c.layout),
        device_x(x, kColumns + 2),
        device_bias(bias),
        want(biased(expected_sums(x, rows, c.layout), bias)) {}
  Tensor x, rows, bias;
  DeviceWeight weight;
  DeviceTensor device_x, device_bias;
  ExpectedSums want;  // they include the bias
};

}  // namespace

TEST_SUITE_BEGIN("cuda/linear_output");

TEST_CASE("bias and activations, written in every dtype") {
  for (const Case& c : kCases) {
    CAPTURE(c.rows);
    const Operands o(c);
    for (const ActivatedLayer& activated : kActivated) {
      ExpectedSums want;
      for (std::size_t i = 0; i < o.want.sum.size(); ++i) {
        const Numbers of = activated.activation(o.want.sum[i]);
        want.sum.push_back(of.y);
        // No slope of these functions is above 1.13.
        want.tolerance.push_back(1.2 * o.want.tolerance[i] + of.roundings * kUnit * std::abs(of.y));
      }
      Tensor wide;
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        const DeviceTensor y(dtype, {c.rows, kFeatures}, kFeatures + 5);
        run_with({.seed = 2}, [&](Stream& stream) {
          activated.layer(stream, o.device_x.view(), o.weight.get(), o.device_bias.view(),
                          y.view());
        });
        if (dtype == DType::kF32) {
          wide = y.to_host();
          check_close(wide.as<float>(), want.sum, want.tolerance);
        } else {
          check_rounded(y.to_host(), wide);
        }
      }
    }
  }
}

TEST_CASE("sums are added to y, scaled or not") {
  for (const Case& c : kCases) {
    CAPTURE(c.rows);
    const Operands o(c);
    const Tensor before = random_f32({c.rows, kFeatures}, 24);
    const Tensor scale = random_of(DType::kBF16, {kFeatures}, 25);
    const DeviceTensor device_scale(scale);
    const std::vector<double> scales = values(scale);
    for (const bool is_scaled : {false, true}) {
      ExpectedSums want;
      for (std::size_t i = 0; i < o.want.sum.size(); ++i) {
        const double factor = is_scaled ? scales[i % kFeatures] : 1;
        const double old = static_cast<double>(before.as<float>()[i]);
        want.sum.push_back(old + factor * o.want.sum[i]);
        want.tolerance.push_back(std::abs(factor) * o.want.tolerance[i] +
                                 2 * kUnit * (std::abs(old) + std::abs(factor * o.want.sum[i])));
      }
      const DeviceTensor y(before, kFeatures + 1);
      run_with({.seed = 1}, [&](Stream& stream) {
        if (is_scaled) {
          caption::kernels::linear_add_scaled(stream, o.device_x.view(),
                                              {o.weight.get(), o.device_bias.view()},
                                              device_scale.view(), y.view());
        } else {
          caption::kernels::linear_add(stream, o.device_x.view(), o.weight.get(),
                                       o.device_bias.view(), y.view());
        }
      });
      check_close(y.to_host().as<float>(), want.sum, want.tolerance);
    }
  }
}

TEST_CASE("SwiGLU of two weights, with biases and without") {
  for (const Case& c : kCases) {
    CAPTURE(c.rows);
    const Operands o(c);
    const Tensor up = random_of(DType::kBF16, {kFeatures, kColumns}, 26);
    const DeviceWeight up_weight(up, c.layout);
    const ExpectedSums up_sums = expected_sums(o.x, up, c.layout);
    ExpectedSums want;
    for (std::size_t i = 0; i < o.want.sum.size(); ++i) {
      const double g = o.want.sum[i];
      const Numbers silu = logistic(g, -g);
      const double y = silu.y * up_sums.sum[i];
      want.sum.push_back(y);
      want.tolerance.push_back(1.2 * o.want.tolerance[i] * std::abs(up_sums.sum[i]) +
                               std::abs(silu.y) * up_sums.tolerance[i] +
                               (silu.roundings + 2) * kUnit * std::abs(y));
    }
    Tensor wide;
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const DeviceTensor y(dtype, {c.rows, kFeatures}, kFeatures + 3);
      run_with({.seed = 2}, [&](Stream& stream) {
        caption::kernels::linear_swiglu(stream, o.device_x.view(),
                                        {o.weight.get(), o.device_bias.view()}, {up_weight.get()},
                                        y.view());
      });
      if (dtype == DType::kF32) {
        wide = y.to_host();
        check_close(wide.as<float>(), want.sum, want.tolerance);
      } else {
        check_rounded(y.to_host(), wide);
      }
    }
  }
}

TEST_CASE(
    "SwiGLU by tiles has the bits of its operations, of both types, with pairs of x and without") {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const std::int64_t rows : {5, 13}) {
      for (const std::int64_t columns : {46, 45}) {
        CAPTURE(rows);
        CAPTURE(columns);
        const DeviceTensor x(random_f32({rows, columns}, 41));
        const DeviceWeight gate(random_of(dtype, {kFeatures, columns}, 42), Layout::kTiles);
        const DeviceWeight up(random_of(dtype, {kFeatures, columns}, 43), Layout::kTiles);
        const DeviceTensor alone[] = {{DType::kF32, {rows, kFeatures}},
                                      {DType::kF32, {rows, kFeatures}}};
        const DeviceTensor y(DType::kF32, {rows, kFeatures});
        const DeviceTensor wanted(DType::kF32, {rows, kFeatures});
        run_with({.seed = 4}, [&](Stream& stream) {
          caption::kernels::linear_swiglu(stream, x.view(), {gate.get()}, {up.get()}, y.view());
          caption::kernels::linear(stream, x.view(), gate.get(), {}, alone[0].view());
          caption::kernels::linear(stream, x.view(), up.get(), {}, alone[1].view());
          caption::kernels::swiglu(stream, alone[0].view(), alone[1].view(), wanted.view());
        });
        CHECK(same_bits(y.to_host(), wanted.to_host()));
      }
    }
  }
}

TEST_CASE("several parts have the bits of each alone") {
  constexpr std::int64_t kSizes[] = {69, 5, 16, 130, 33};
  for (const Case& c : kCases) {
    CAPTURE(c.rows);
    const DeviceTensor x(random_f32({c.rows, kColumns}, 31));
    const DeviceTensor bias(random_of(DType::kBF16, {16}, 32));
    std::vector<std::unique_ptr<DeviceWeight>> weights;
    std::vector<std::unique_ptr<DeviceTensor>> together;
    std::vector<std::unique_ptr<DeviceTensor>> alone;
    std::vector<LinearPart> parts;
    for (const std::int64_t size : kSizes) {
      const Tensor rows =
          random_of(DType::kF16, {size, kColumns}, static_cast<std::uint32_t>(size));
      weights.push_back(std::make_unique<DeviceWeight>(rows, c.layout));
      for (auto* const ys : {&together, &alone}) {
        ys->push_back(std::make_unique<DeviceTensor>(DType::kF32, caption::Shape{c.rows, size}));
      }
      const ConstView part_bias = size == 16 ? ConstView(bias.view()) : ConstView{};
      parts.push_back({weights.back()->get(), part_bias, together.back()->view()});
    }
    run_with({.seed = 1}, [&](Stream& stream) {
      caption::kernels::linear(stream, x.view(), parts);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        caption::kernels::linear(stream, x.view(), parts[i].weight, parts[i].bias,
                                 alone[i]->view());
      }
    });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      CHECK(same_bits(together[i]->to_host(), alone[i]->to_host()));
    }
  }
}

TEST_SUITE_END();
