// Weights packed in panels: every tier agrees with a double-precision loop over the same rounded
// operands, and the bits of a row do not depend on the other rows.
#include "kernels/cpu/packed_weight.h"

#include <limits>
#include <vector>

#include "base/error.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "tests/kernels/testing.h"

using caption::ConstView;
using caption::CpuTier;
using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::kernels::linear;
using caption::kernels::linear_add;
using caption::kernels::Weight;
using caption::kernels::cpu::PackedWeight;
using caption::kernels::cpu::to_weight;
using namespace caption::testing;

namespace {

Weight pack(const Tensor& weight) {
  ThreadPool pool(2);
  Stream stream(pool);
  return to_weight(PackedWeight::pack_panels(stream, weight.view()), caption::Device::kCpu);
}

struct Case {
  std::int64_t m, n, k;
};
// Sizes: 1; odd; around the 32 features of a panel, the 64 features and 96 rows of a block, and
// tiles of 12 rows.
constexpr Case kCases[] = {{1, 1, 1},     {3, 5, 7},      {1, 64, 100}, {2, 96, 33},
                           {4, 33, 64},   {5, 31, 2},     {11, 65, 17}, {12, 32, 31},
                           {13, 128, 96}, {16, 160, 128}, {25, 63, 50}, {49, 129, 33},
                           {97, 40, 65},  {1, 3072, 1024}};

}  // namespace

TEST_SUITE_BEGIN("kernels/packed_weight");

TEST_CASE("rows are borrowed as they are") {
  const Tensor weight = random_of(DType::kBF16, {5, 7}, 1);
  const Weight rows = weight.view();
  CHECK(PackedWeight::of(rows).layout() == PackedWeight::Layout::kRows);
  CHECK(PackedWeight::of(rows).rows().raw() == weight.view().raw());
  CHECK(rows.is_borrowed());
  CHECK(rows.num_features() == 5);
  CHECK(rows.num_columns() == 7);
  CHECK(rows.size_bytes() == 70);
  CHECK(Weight().empty());
}

TEST_CASE("a panel holds 32 features' pairs of columns side by side, and zeros beyond the matrix") {
  const Tensor weight = random_of(DType::kBF16, {37, 5}, 1);
  const Weight held = pack(weight);
  const PackedWeight& packed = PackedWeight::of(held);
  REQUIRE(packed.layout() == PackedWeight::Layout::kPanels);
  REQUIRE(packed.panels().shape() == caption::Shape({2, 3, 32, 2}));
  CHECK(packed.size_bytes() == 2 * 3 * 32 * 2 * 2);
  const auto* const panels = packed.panels().as<caption::BF16>();
  const auto* const rows = weight.as<caption::BF16>();
  int num_wrong = 0;
  for (std::int64_t n = 0; n < 64; ++n) {
    for (std::int64_t k = 0; k < 6; ++k) {
      const std::uint16_t wanted = n < 37 && k < 5 ? rows[n * 5 + k].bits : 0;
      const std::int64_t at = ((n / 32 * 3 + k / 2) * 32 + n % 32) * 2 + k % 2;
      if (panels[at].bits != wanted) ++num_wrong;
    }
  }
  CHECK(num_wrong == 0);
}

TEST_CASE("agrees with a double-precision loop over the rounded operands") {
  for (const Case& c : kCases) {
    CAPTURE(c.m);
    CAPTURE(c.n);
    CAPTURE(c.k);
    const Tensor x = random_f32({c.m, c.k}, 1);
    const Tensor weight = random_of(DType::kBF16, {c.n, c.k}, 2);
    const Tensor bias = random_of(DType::kBF16, {c.n}, 3);
    const Tensor residual = random_f32({c.m, c.n}, 4);
    const Weight packed = pack(weight);
    const std::vector<double> xs = values(converted(x, DType::kBF16));
    const std::vector<double> ws = values(weight);
    const std::vector<double> bs = values(bias);
    const std::vector<double> rs = values(residual);
    std::vector<double> plain, added, plain_tolerance, added_tolerance;
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j) {
        double sum = 0;
        double magnitude = 0;
        for (std::int64_t l = 0; l < c.k; ++l) {
          sum += xs[i * c.k + l] * ws[j * c.k + l];
          magnitude += std::abs(xs[i * c.k + l] * ws[j * c.k + l]);
        }
        // A term has at most k additions, its product's rounding, bias and residual.
        const double rounding = (static_cast<double>(c.k) + 4) * kUnit;
        plain.push_back(sum);
        plain_tolerance.push_back(rounding * magnitude);
        added.push_back(sum + bs[j] + rs[i * c.n + j]);
        added_tolerance.push_back(rounding *
                                  (magnitude + std::abs(bs[j]) + std::abs(rs[i * c.n + j])));
      }
    }
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, {c.m, c.n});
      linear(stream, x.view(), packed, ConstView{}, y.view());
      check_close(y.as<float>(), plain, plain_tolerance);
      Tensor sum = residual.clone();
      linear_add(stream, x.view(), packed, bias.view(), sum.view());
      check_close(sum.as<float>(), added, added_tolerance);
    });
  }
}

TEST_CASE("a row alone has the bits it has in any batch, with any number of threads") {
  constexpr std::int64_t kRows = 103;
  const Tensor x = random_f32({kRows, 333}, 5);
  const Weight packed = pack(random_of(DType::kBF16, {77, 333}, 6));
  for (const CpuTier tier : TestedTiers()) {
    CAPTURE(static_cast<int>(tier));
    ThreadPool one(1);
    Stream alone(one, tier);
    Tensor whole(DType::kF32, {kRows, 77});
    linear(alone, x.view(), packed, ConstView{}, whole.view());
    ThreadPool three(3);
    Stream together(three, tier);
    Tensor threaded(DType::kF32, {kRows, 77});
    linear(together, x.view(), packed, ConstView{}, threaded.view());
    CHECK(same_bits(whole, threaded));
    Tensor pieces(DType::kF32, {kRows, 77});
    std::int64_t first = 0;
    for (const std::int64_t count : {1, 1, 2, 3, 4, 5, 6, 7, 11, 13, 50}) {
      linear(alone, x.view().rows(first, count), packed, ConstView{},
             pieces.view().rows(first, count));
      first += count;
    }
    REQUIRE(first == kRows);
    CHECK(same_bits(whole, pieces));
  }
}

TEST_CASE("a row of panels reads as the row of the matrix") {
  const Tensor weight = random_of(DType::kBF16, {70, 13}, 6);
  const Weight packed = pack(weight);
  const Tensor ids = indices({69, 0, 31, 32, 5, 64});
  for_each_stream([&](Stream& stream) {
    Tensor plain(DType::kF32, {6, 13});
    Tensor from_panels(DType::kF32, {6, 13});
    caption::kernels::embedding(stream, ids.view(), weight.view(), plain.view());
    caption::kernels::embedding(stream, ids.view(), packed, from_panels.view());
    CHECK(same_bits(plain, from_panels));
  });
}

TEST_CASE("NaN and infinity come through; other rows do not notice") {
  Tensor x = random_f32({3, 40}, 7);
  x.as<float>()[40 + 3] = std::numeric_limits<float>::quiet_NaN();
  x.as<float>()[80 + 5] = std::numeric_limits<float>::infinity();
  const Weight packed = pack(random_of(DType::kBF16, {33, 40}, 8));
  for_each_stream([&](Stream& stream) {
    Tensor y(DType::kF32, {3, 33});
    linear(stream, x.view(), packed, ConstView{}, y.view());
    for (std::int64_t n = 0; n < 33; ++n) {
      CHECK(std::isfinite(y.as<float>()[n]));
      CHECK(std::isnan(y.as<float>()[33 + n]));
      CHECK_FALSE(std::isfinite(y.as<float>()[66 + n]));
    }
  });
}

TEST_CASE("what cannot be packed or multiplied is refused") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor codes(DType::kI8, {4, 3});
  CHECK_THROWS_WITH_AS(PackedWeight::pack_panels(stream, codes.view()), doctest::Contains("i8"),
                       Error);
  const Weight packed = pack(random_of(DType::kBF16, {4, 3}, 10));
  const Tensor x = random_f32({2, 5}, 11);
  Tensor y(DType::kF32, {2, 4});
  CHECK_THROWS_WITH_AS(linear(stream, x.view(), packed, ConstView{}, y.view()),
                       "linear: x is f32 [2, 5] on cpu; wanted f32 [2, 3]", Error);
}

TEST_SUITE_END();
