#include "kernels/linear.h"

#include <vector>

#include "base/error.h"
#include "tests/kernels/testing.h"

using caption::ConstView;
using caption::CpuTier;
using caption::DType;
using caption::Error;
using caption::Shape;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::kernels::linear;
using caption::kernels::linear_add;
using namespace caption::testing;

namespace {

struct Case {
  std::int64_t m, n, k;
  DType weight;
};
// Sizes: 1; odd; one past tiles (6 rows, 4 and 64 features, 16 lanes); those of real models.
constexpr Case kCases[] = {
    {1, 1, 1, DType::kF32},     {3, 5, 7, DType::kBF16},       {7, 65, 17, DType::kF16},
    {49, 129, 33, DType::kF32}, {6, 4, 16, DType::kBF16},      {5, 3, 15, DType::kF16},
    {2, 67, 257, DType::kF32},  {1, 1024, 3072, DType::kBF16}, {17, 128, 1024, DType::kBF16},
    {4, 64, 588, DType::kF32},  {1, 64, 588, DType::kF16}};

// The exact result and the bound of the error of a float sum in 8 or more interleaved parts: each
// term passes at most k / 8 additions in its lane, the rounding of the product, 4 levels of the
// tree, bias and residual; 8 roundings in all besides the lane.
struct Expected {
  std::vector<double> y;
  std::vector<double> tolerance;
};
Expected expect(const Tensor& x, const Tensor& weight, const Tensor* bias, const Tensor* residual) {
  const std::int64_t m = x.dim(0);
  const std::int64_t k = x.dim(1);
  const std::int64_t n = weight.dim(0);
  const std::vector<double> xs = values(x);
  const std::vector<double> ws = values(weight);
  const std::vector<double> bs = bias != nullptr ? values(*bias) : std::vector<double>(n, 0.0);
  const std::vector<double> rs =
      residual != nullptr ? values(*residual) : std::vector<double>(m * n, 0.0);
  Expected expected;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = bs[j] + rs[i * n + j];
      double magnitude = std::abs(bs[j]) + std::abs(rs[i * n + j]);
      for (std::int64_t l = 0; l < k; ++l) {
        sum += xs[i * k + l] * ws[j * k + l];
        magnitude += std::abs(xs[i * k + l] * ws[j * k + l]);
      }
      expected.y.push_back(sum);
      expected.tolerance.push_back((static_cast<double>(k) / 8 + 8) * kUnit * magnitude);
    }
  }
  return expected;
}

}  // namespace

TEST_SUITE_BEGIN("kernels/linear");

TEST_CASE("agrees with a double-precision loop, with and without bias and residual") {
  for (const Case& c : kCases) {
    CAPTURE(c.m);
    CAPTURE(c.n);
    CAPTURE(c.k);
    const Tensor x = random_f32({c.m, c.k}, 1);
    const Tensor weight = random_of(c.weight, {c.n, c.k}, 2);
    const Tensor bias = random_of(DType::kBF16, {c.n}, 3);
    const Tensor residual = random_f32({c.m, c.n}, 4);
    const Expected plain = expect(x, weight, nullptr, nullptr);
    const Expected biased = expect(x, weight, &bias, nullptr);
    const Expected added = expect(x, weight, &bias, &residual);
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, {c.m, c.n});
      linear(stream, x.view(), weight.view(), ConstView{}, y.view());
      check_close(y.as<float>(), plain.y, plain.tolerance);
      linear(stream, x.view(), weight.view(), bias.view(), y.view());
      check_close(y.as<float>(), biased.y, biased.tolerance);
      Tensor sum = residual.clone();
      linear_add(stream, x.view(), weight.view(), bias.view(), sum.view());
      check_close(sum.as<float>(), added.y, added.tolerance);
    });
  }
}

TEST_CASE("a row alone has the bits it has in any batch, with any number of threads") {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    CAPTURE(static_cast<int>(dtype));
    constexpr std::int64_t kRows = 103;  // one block of 96 and a rest
    const Tensor x = random_f32({kRows, 333}, 5);
    const Tensor weight = random_of(dtype, {77, 333}, 6);
    for (const CpuTier tier : TestedTiers()) {
      CAPTURE(static_cast<int>(tier));
      ThreadPool one(1);
      Stream alone(one, tier);
      Tensor whole(DType::kF32, {kRows, 77});
      linear(alone, x.view(), weight.view(), ConstView{}, whole.view());
      ThreadPool three(3);
      Stream together(three, tier);
      Tensor threaded(DType::kF32, {kRows, 77});
      linear(together, x.view(), weight.view(), ConstView{}, threaded.view());
      CHECK(same_bits(whole, threaded));
      Tensor pieces(DType::kF32, {kRows, 77});
      std::int64_t first = 0;
      for (const std::int64_t count : {1, 1, 2, 3, 4, 5, 6, 7, 11, 13, 50}) {
        linear(alone, x.view().rows(first, count), weight.view(), ConstView{},
               pieces.view().rows(first, count));
        first += count;
      }
      REQUIRE(first == kRows);
      CHECK(same_bits(whole, pieces));
    }
  }
}

TEST_CASE("a row has its bits in blocks of every height") {
  // Blocks of tile registers have up to 384 rows, others 96: with these widths two or three blocks,
  // the last one with a rest.
  for (const std::int64_t columns : {40, 1030}) {
    for (const std::int64_t rows : {390, 421}) {
      CAPTURE(columns);
      CAPTURE(rows);
      const Tensor x = random_f32({rows, columns}, 11);
      const Tensor weight = random_of(DType::kBF16, {300, columns}, 12);
      for (const CpuTier tier : TestedTiers()) {
        CAPTURE(static_cast<int>(tier));
        ThreadPool one(1);
        Stream stream(one, tier);
        const caption::kernels::Weight panels = caption::kernels::place_bf16(stream, weight.view());
        Tensor whole(DType::kF32, {rows, 300});
        linear(stream, x.view(), panels, ConstView{}, whole.view());
        Tensor pieces(DType::kF32, {rows, 300});
        for (std::int64_t first = 0; first < rows; first += 13) {
          const std::int64_t count = std::min<std::int64_t>(13, rows - first);
          linear(stream, x.view().rows(first, count), panels, ConstView{},
                 pieces.view().rows(first, count));
        }
        CHECK(same_bits(whole, pieces));
      }
    }
  }
}

TEST_CASE("a feature's bits do not depend on the other features") {
  const Tensor x = random_f32({9, 100}, 7);
  const Tensor weight = random_of(DType::kBF16, {13, 100}, 8);
  for_each_stream([&](Stream& stream) {
    Tensor whole(DType::kF32, {9, 13});
    linear(stream, x.view(), weight.view(), ConstView{}, whole.view());
    Tensor columns(DType::kF32, {9, 13});
    for (std::int64_t n = 0; n < 13; ++n) {
      linear(stream, x.view(), weight.view().rows(n, 1), ConstView{}, columns.view().columns(n, 1));
    }
    CHECK(same_bits(whole, columns));
  });
}

TEST_CASE("strided rows give the bits of dense ones and leave their neighbours alone") {
  Tensor wide_x = random_f32({5, 50}, 9);
  const Tensor weight = random_of(DType::kF32, {8, 20}, 10);
  for_each_stream([&](Stream& stream) {
    const auto x = wide_x.view().columns(30, 20);
    Tensor dense_x(DType::kF32, {5, 20});
    caption::kernels::convert(stream, x, dense_x.view());
    Tensor y(DType::kF32, {5, 8});
    linear(stream, dense_x.view(), weight.view(), ConstView{}, y.view());
    Tensor wide_y = Tensor::zeros(DType::kF32, {5, 11});
    linear(stream, x, weight.view(), ConstView{}, wide_y.view().columns(2, 8));
    for (std::int64_t m = 0; m < 5; ++m) {
      CHECK(wide_y.as<float>()[m * 11 + 1] == 0);
      CHECK(wide_y.as<float>()[m * 11 + 10] == 0);
      for (std::int64_t n = 0; n < 8; ++n) {
        CHECK(wide_y.as<float>()[m * 11 + 2 + n] == y.as<float>()[m * 8 + n]);
      }
    }
  });
}

TEST_CASE("no rows, no work") {
  const Tensor x(DType::kF32, {0, 8});
  const Tensor weight = random_f32({4, 8}, 11);
  Tensor y(DType::kF32, {0, 4});
  for_each_stream(
      [&](Stream& stream) { linear(stream, x.view(), weight.view(), ConstView{}, y.view()); });
}

TEST_CASE("wrong shapes, dtypes and devices are refused with what was wanted") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor x = random_f32({2, 3}, 12);
  const Tensor weight = random_of(DType::kBF16, {4, 3}, 13);
  Tensor y(DType::kF32, {2, 4});
  const Tensor longer = random_of(DType::kBF16, {4, 5}, 14);
  CHECK_THROWS_WITH_AS(linear(stream, x.view(), longer.view(), ConstView{}, y.view()),
                       "linear: x is f32 [2, 3] on cpu; wanted f32 [2, 5]", Error);
  CHECK_THROWS_WITH_AS(linear_add(stream, x.view(), weight.view(), x.view(), y.view()),
                       "linear_add: bias is f32 [2, 3] on cpu; wanted f32, bf16 or f16 [4]", Error);
  CHECK_THROWS_WITH_AS(linear(stream, weight.view(), weight.view(), ConstView{}, y.view()),
                       "linear: x is bf16 [4, 3] on cpu; wanted f32 [4, 3]", Error);
  CHECK_THROWS_WITH_AS(linear(stream, x.view(), weight.view(), ConstView{}, y.view().rows(0, 1)),
                       "linear: y is f32 [1, 4] on cpu; wanted f32 [2, 4]", Error);
  const ConstView elsewhere(x.view().raw(), DType::kF32, {2, 3}, caption::Device::kCuda);
  CHECK_THROWS_WITH_AS(linear(stream, elsewhere, weight.view(), ConstView{}, y.view()),
                       "linear: x is f32 [2, 3] on cuda; wanted it on cpu", Error);
}

TEST_SUITE_END();
