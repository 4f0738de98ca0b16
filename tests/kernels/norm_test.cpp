#include "kernels/norm.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/kernels/testing.h"

using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::View;
using caption::kernels::layer_norm;
using caption::kernels::rms_norm;
using namespace caption::testing;

namespace {

constexpr float kEps = 1e-5F;

struct Case {
  std::int64_t rows, dim;
  DType weight;
};
constexpr Case kCases[] = {{1, 1, DType::kF32},     {3, 7, DType::kBF16},    {2, 17, DType::kF16},
                           {5, 128, DType::kF32},   {9, 1024, DType::kBF16}, {1, 4096, DType::kF16},
                           {130, 1025, DType::kF32}};

// A mean of n terms in 16 interleaved sums is off by at most n / 16 + 5 roundings of the mean
// magnitude; a root halves relative errors; the remaining operations add a few roundings.
double sum_roundings(std::int64_t dim) { return static_cast<double>(dim) / 16 + 12; }

}  // namespace

TEST_SUITE_BEGIN("kernels/norm");

TEST_CASE("rms_norm agrees with a double-precision loop") {
  for (const Case& c : kCases) {
    CAPTURE(c.rows);
    CAPTURE(c.dim);
    const Tensor x = random_f32({c.rows, c.dim}, 1);
    const Tensor weight = random_of(c.weight, {c.dim}, 2);
    const std::vector<double> xs = values(x);
    const std::vector<double> ws = values(weight);
    std::vector<double> want;
    std::vector<double> tolerance;
    for (std::int64_t r = 0; r < c.rows; ++r) {
      double squares = 0;
      for (std::int64_t i = 0; i < c.dim; ++i) squares += xs[r * c.dim + i] * xs[r * c.dim + i];
      const double factor =
          1 / std::sqrt(squares / static_cast<double>(c.dim) + static_cast<double>(kEps));
      for (std::int64_t i = 0; i < c.dim; ++i) {
        want.push_back(xs[r * c.dim + i] * factor * ws[i]);
        tolerance.push_back(sum_roundings(c.dim) * kUnit * std::abs(want.back()));
      }
    }
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, {c.rows, c.dim});
      rms_norm(stream, x.view(), weight.view(), kEps, y.view());
      check_close(y.as<float>(), want, tolerance);
    });
  }
}

TEST_CASE("layer_norm agrees with a double-precision loop, far from zero too") {
  for (const Case& c : kCases) {
    for (const float shift : {0.0F, 30.0F}) {
      CAPTURE(c.rows);
      CAPTURE(c.dim);
      CAPTURE(shift);
      Tensor x = random_f32({c.rows, c.dim}, 3);
      for (std::int64_t i = 0; i < x.num_elements(); ++i) x.as<float>()[i] += shift;
      const Tensor weight = random_of(c.weight, {c.dim}, 4);
      const Tensor bias = random_of(DType::kF32, {c.dim}, 5);
      const std::vector<double> xs = values(x);
      const std::vector<double> ws = values(weight);
      const std::vector<double> bs = values(bias);
      std::vector<double> want;
      std::vector<double> tolerance;
      for (std::int64_t r = 0; r < c.rows; ++r) {
        double mean = 0;
        double variance = 0;
        for (std::int64_t i = 0; i < c.dim; ++i) mean += xs[r * c.dim + i];
        mean /= static_cast<double>(c.dim);
        for (std::int64_t i = 0; i < c.dim; ++i) variance += std::pow(xs[r * c.dim + i] - mean, 2);
        variance /= static_cast<double>(c.dim);
        const double factor = 1 / std::sqrt(variance + static_cast<double>(kEps));
        for (std::int64_t i = 0; i < c.dim; ++i) {
          want.push_back((xs[r * c.dim + i] - mean) * factor * ws[i] + bs[i]);
          // The mean's error is relative to |x| <= 1 + shift and is multiplied by the factor.
          const double scale = (1.0 + static_cast<double>(shift)) * factor * std::abs(ws[i]);
          tolerance.push_back(sum_roundings(c.dim) * kUnit *
                              (scale + std::abs(want.back()) + std::abs(bs[i])));
        }
      }
      for_each_stream([&](Stream& stream) {
        Tensor y(DType::kF32, {c.rows, c.dim});
        layer_norm(stream, x.view(), weight.view(), bias.view(), kEps, y.view());
        check_close(y.as<float>(), want, tolerance);
      });
    }
  }
}

TEST_CASE("every tier and number of threads has the same bits") {
  for (const Case& c : kCases) {
    CAPTURE(c.dim);
    const Tensor x = random_f32({c.rows, c.dim}, 1);
    const Tensor weight = random_of(c.weight, {c.dim}, 2);
    const Tensor bias = random_f32({c.dim}, 3);
    Tensor rms_before;
    Tensor layer_before;
    for_each_stream([&](Stream& stream) {
      Tensor rms(DType::kF32, {c.rows, c.dim});
      Tensor layer(DType::kF32, {c.rows, c.dim});
      rms_norm(stream, x.view(), weight.view(), kEps, rms.view());
      layer_norm(stream, x.view(), weight.view(), bias.view(), kEps, layer.view());
      if (!rms_before.empty()) {
        CHECK(same_bits(rms, rms_before));
        CHECK(same_bits(layer, layer_before));
      }
      rms_before = std::move(rms);
      layer_before = std::move(layer);
    });
  }
}

TEST_CASE("heads of a strided matrix, in place, give the bits of dense rows alone") {
  constexpr std::int64_t kTokens = 5;
  constexpr std::int64_t kHeads = 3;
  constexpr std::int64_t kHeadDim = 24;
  const Tensor qkv = random_f32({kTokens, 2 * kHeads * kHeadDim}, 6);
  const Tensor weight = random_of(DType::kBF16, {kHeadDim}, 7);
  for_each_stream([&](Stream& stream) {
    Tensor in_place = qkv.clone();
    const View heads = in_place.view()
                           .columns(kHeads * kHeadDim, kHeads * kHeadDim)
                           .reshape({kTokens, kHeads, kHeadDim});
    rms_norm(stream, heads, weight.view(), kEps, heads);
    int different = 0;
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t i = 0; i < kHeads * kHeadDim; ++i) {  // the left half must not change
        different += in_place.as<float>()[t * 2 * kHeads * kHeadDim + i] !=
                     qkv.as<float>()[t * 2 * kHeads * kHeadDim + i];
      }
      for (std::int64_t h = 0; h < kHeads; ++h) {
        const std::int64_t at = (t * 2 * kHeads + kHeads + h) * kHeadDim;
        Tensor row(DType::kF32, {1, kHeadDim});
        std::copy_n(qkv.as<float>() + at, kHeadDim, row.as<float>());
        rms_norm(stream, row.view(), weight.view(), kEps, row.view());
        for (std::int64_t i = 0; i < kHeadDim; ++i) {
          different += row.as<float>()[i] != in_place.as<float>()[at + i];
        }
      }
    }
    CHECK(different == 0);
  });
}

TEST_CASE("wrong operands are refused by name") {
  ThreadPool pool(1);
  Stream stream(pool);
  Tensor x = random_f32({2, 8}, 8);
  const Tensor weight = random_f32({7}, 9);
  CHECK_THROWS_WITH_AS(rms_norm(stream, x.view(), weight.view(), kEps, x.view()),
                       "rms_norm: weight is f32 [7] on cpu; wanted f32, bf16 or f16 [8]", Error);
  const Tensor right = random_f32({8}, 10);
  CHECK_THROWS_WITH_AS(rms_norm(stream, x.view(), right.view(), 0, x.view()),
                       "rms_norm: eps is not positive", Error);
  CHECK_THROWS_WITH_AS(layer_norm(stream, x.view(), right.view(), weight.view(), kEps, x.view()),
                       "layer_norm: bias is f32 [7] on cpu; wanted f32, bf16 or f16 [8]", Error);
  CHECK_THROWS_WITH_AS(rms_norm(stream, right.view(), right.view(), kEps, x.view()),
                       "rms_norm: x is [8]; wanted [rows, dim] or [rows, heads, dim]", Error);
}

TEST_SUITE_END();
