// AWQ's search for scales against AutoAWQ; the goldens are made by
// scripts/make_goldens_calibrated.py, which runs its class.
#include "quantise/awq_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "quantise/rounding.h"
#include "tests/quantise/calibrated_golden.h"
#include "tests/quantise/drawn_matrix.h"

namespace caption::quantise {
namespace {

using testing::draw;

// Every 17th input is 30 times larger than the others.
Tensor draw_inputs(std::int64_t rows, std::int64_t columns, unsigned seed) {
  Tensor inputs = draw(rows, columns, seed);
  for (std::int64_t i = 0; i < inputs.num_elements(); ++i) {
    if (i % columns % 17 == 2) inputs.as<float>()[i] *= 30;
  }
  return inputs;
}

InputMoments moments_of(Stream& stream, ConstView inputs) {
  InputMoments moments(inputs.dim(1));
  moments.add(stream, inputs);
  return moments;
}

std::vector<float> magnitudes_of(ConstView inputs) {
  InputMagnitudes magnitudes(inputs.dim(1));
  magnitudes.add(inputs);
  return magnitudes.means();
}

// y [M] = matrix [M, N] x, in f64.
std::vector<double> multiply(ConstView matrix, std::span<const double> x) {
  std::vector<double> y(static_cast<std::size_t>(matrix.dim(0)));
  for (std::int64_t m = 0; m < matrix.dim(0); ++m) {
    const float* const row = matrix.as<float>() + m * matrix.dim(1);
    for (std::size_t k = 0; k < x.size(); ++k) y[static_cast<std::size_t>(m)] += row[k] * x[k];
  }
  return y;
}

std::vector<double> run_mlp(ConstView gate, ConstView up, ConstView down,
                            std::span<const double> x) {
  std::vector<double> inner = multiply(gate, x);
  const std::vector<double> factors = multiply(up, x);
  for (std::size_t i = 0; i < inner.size(); ++i) {
    inner[i] = inner[i] / (1 + std::exp(-inner[i])) * factors[i];
  }
  return multiply(down, inner);
}

// The loss of an MLP with gate and up.
ModuleLoss mlp_loss(const std::vector<ConstView>& weights, ConstView down, const Tensor& inputs) {
  return [=, &inputs](std::span<const ConstView> candidates) {
    double sum = 0;
    for (std::int64_t t = 0; t < inputs.dim(0); ++t) {
      const float* const row = inputs.as<float>() + t * inputs.dim(1);
      const std::vector<double> x(row, row + inputs.dim(1));
      const std::vector<double> wanted = run_mlp(weights[0], weights[1], down, x);
      const std::vector<double> made = run_mlp(candidates[0], candidates[1], down, x);
      for (std::size_t m = 0; m < made.size(); ++m) {
        sum += (made[m] - wanted[m]) * (made[m] - wanted[m]);
      }
    }
    return sum / static_cast<double>(inputs.dim(0) * down.dim(0));
  };
}

}  // namespace

TEST_SUITE_BEGIN("quantise/awq_search");

// The tool's outputs are sums in f32 of K products, up to 20 times larger than the others, whose
// differences are squared: relative errors of 2^-24 * sqrt(K) in an output, of which the difference
// is about a twentieth, so 1e-4 in a loss. Its scales are powers in f32, of means in f32.
TEST_CASE("finds the scales of AutoAWQ") {
  int num_mlps = 0;
  for (const CalibratedGolden& golden : read_calibrated_goldens("awq")) {
    CAPTURE(golden.name);
    ThreadPool pool(2);
    Stream stream(pool);
    const Tensor inputs = golden.inputs();
    const InputMoments moments = moments_of(stream, inputs.view());
    const bool is_mlp = golden.has("down");
    num_mlps += is_mlp ? 1 : 0;
    std::vector<ConstView> weights = {golden.tensor("weight_0")};
    if (is_mlp) weights.push_back(golden.tensor("weight_1"));
    const ModuleLoss loss = is_mlp ? mlp_loss(weights, golden.tensor("down"), inputs)
                                   : linear_loss(stream, weights[0], moments);
    const AwqScales found =
        search_scales(pool, weights, magnitudes_of(inputs.view()), loss,
                      {.group_columns = golden.options.require_int("group_columns", 0, 128)});
    const auto losses = golden.numbers<float>("losses");
    REQUIRE(found.losses.size() == losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      CAPTURE(i);
      CHECK(found.losses[i] == doctest::Approx(static_cast<double>(losses[i])).epsilon(1e-4));
    }
    const auto least = std::min_element(losses.begin(), losses.end()) - losses.begin();
    CHECK(found.ratio == doctest::Approx(static_cast<double>(least) / 20));
    const auto scales = golden.numbers<float>("scales");
    REQUIRE(found.scales.size() == scales.size());
    for (std::size_t k = 0; k < scales.size(); ++k) {
      CHECK(found.scales[k] == doctest::Approx(static_cast<double>(scales[k])).epsilon(1e-5));
    }
  }
  CHECK(num_mlps == 1);
}

TEST_CASE("ratio 0 without weights is rounding to nearest") {
  ThreadPool pool(2);
  Stream stream(pool);
  const Tensor weight = draw(16, 128, 1);
  const Tensor inputs = draw_inputs(50, 128, 2);
  const InputMoments moments = moments_of(stream, inputs.view());
  const ConstView weights[] = {weight.view()};
  const AwqScales found = search_scales(
      pool, weights, magnitudes_of(inputs.view()), linear_loss(stream, weight.view(), moments),
      {.group_columns = 64, .num_ratios = 1, .duo_scaling = false});
  CHECK(found.ratio == 0);
  CHECK(found.scales == std::vector<float>(128, 1.0F));
  Tensor difference(DType::kF32, weight.shape());
  pseudo_quantise(pool, weight.view(), 64, difference.view());
  // round_awq() rounds every operation to f16, so a value is the same to 2^-10 of the largest, or
  // the next one.
  const RoundedMatrix rounded = round_awq(pool, weight.view(), 64);
  std::size_t equal = 0;
  for (std::int64_t i = 0; i < weight.num_elements(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto group = static_cast<std::size_t>(i / 64);
    const float value =
        rounded.scales[group] * static_cast<float>(rounded.codes[at] - rounded.zeros[group]);
    const float error = std::abs(value - difference.as<float>()[i]);
    CHECK(error <= rounded.scales[group] * 1.02F);
    equal += error <= rounded.scales[group] * 0.02F ? 1 : 0;
    difference.as<float>()[i] -= weight.as<float>()[i];
  }
  CHECK(equal >= 2000);
  CHECK(found.losses[0] == mean_squared_output(stream, difference.view(), moments));
}

TEST_CASE("scales lose less than rounding to nearest") {
  ThreadPool pool(2);
  Stream stream(pool);
  const Tensor weight = draw(32, 256, 3);
  const Tensor inputs = draw_inputs(200, 256, 4);
  const InputMoments moments = moments_of(stream, inputs.view());
  const ConstView weights[] = {weight.view()};
  const ModuleLoss loss = linear_loss(stream, weight.view(), moments);
  Tensor nearest(DType::kF32, weight.shape());
  pseudo_quantise(pool, weight.view(), 128, nearest.view());
  const ConstView rounded[] = {std::as_const(nearest).view()};
  const AwqScales found = search_scales(pool, weights, magnitudes_of(inputs.view()), loss, {});
  const double least = *std::min_element(found.losses.begin(), found.losses.end());
  CHECK(least < 0.5 * loss(rounded));
  CHECK(found.losses[static_cast<std::size_t>(std::lround(found.ratio * 20))] == least);
}

// A layer that follows a norm or another layer gives the same output after the scales are folded.
TEST_CASE("what scales multiply here, they divide there") {
  ThreadPool pool(2);
  const std::vector<float> scales = {0.5F, 4, 2, 0.25F};
  Tensor matrix = draw(3, 4, 5);
  const Tensor before = matrix.clone();
  multiply_columns(pool, matrix.view(), scales);
  Tensor previous = draw(6, 2, 6);  // the last four of its six rows make the inputs
  const Tensor previous_before = previous.clone();
  divide(previous.view(), scales);
  Tensor norm = draw(1, 4, 7);
  const Tensor norm_before = norm.clone();
  divide(norm.view().reshape({4}), scales);
  for (std::int64_t k = 0; k < 4; ++k) {
    const float scale = scales[static_cast<std::size_t>(k)];
    for (std::int64_t n = 0; n < 3; ++n) {
      CHECK(matrix.as<float>()[n * 4 + k] == before.as<float>()[n * 4 + k] * scale);
    }
    for (std::int64_t i = 0; i < 2; ++i) {
      const std::int64_t at = (k + 2) * 2 + i;
      CHECK(previous.as<float>()[at] == previous_before.as<float>()[at] / scale);
    }
    CHECK(norm.as<float>()[k] == norm_before.as<float>()[k] / scale);
  }
  for (std::int64_t i = 0; i < 4; ++i) {
    CHECK(previous.as<float>()[i] == previous_before.as<float>()[i]);
  }
}

TEST_CASE("refuses numbers that are not finite and groups that do not divide") {
  ThreadPool pool(2);
  Stream stream(pool);
  const Tensor weight = draw(8, 64, 8);
  const Tensor inputs = draw(20, 64, 9);
  const ModuleLoss zero = [](std::span<const ConstView>) { return 0.0; };
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Tensor bad_weight = weight.clone();
    bad_weight.as<float>()[77] = bad;
    Tensor bad_inputs = inputs.clone();
    bad_inputs.as<float>()[700] = bad;
    const ConstView weights[] = {weight.view(), bad_weight.view()};
    CHECK_THROWS_WITH_AS(
        search_scales(pool, weights, magnitudes_of(inputs.view()), zero, {.group_columns = 32}),
        "a weight is not a finite number; download the model again", Error);
    CHECK_THROWS_WITH_AS(magnitudes_of(bad_inputs.view()),
                         "an input of the layer is not a finite number; download the model again, "
                         "or quantise it without --calibrate",
                         Error);
  }
  const ConstView weights[] = {weight.view()};
  const ModuleLoss nowhere = [](std::span<const ConstView>) {
    return std::numeric_limits<double>::quiet_NaN();
  };
  CHECK_THROWS_WITH_AS(
      search_scales(pool, weights, magnitudes_of(inputs.view()), nowhere, {.group_columns = 32}),
      "a layer's output is not finite with any scales of AWQ; download the model again, or "
      "quantise it without --calibrate",
      Error);
  CHECK_THROWS_WITH_AS(
      search_scales(pool, weights, magnitudes_of(inputs.view()), zero, {.group_columns = 48}),
      doctest::Contains("groups of 48 do not divide the 64 columns"), Error);
}

TEST_CASE("inputs that are zero give scales that are finite") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor weight = draw(8, 64, 10);
  const Tensor inputs = Tensor::zeros(DType::kF32, {4, 64});
  const InputMoments moments = moments_of(stream, inputs.view());
  const ConstView weights[] = {weight.view()};
  const AwqScales found =
      search_scales(pool, weights, magnitudes_of(inputs.view()),
                    linear_loss(stream, weight.view(), moments), {.group_columns = 32});
  for (const float scale : found.scales) CHECK((std::isfinite(scale) && scale > 0));
  CHECK(found.ratio == 0);
}

TEST_SUITE_END();

}  // namespace caption::quantise
