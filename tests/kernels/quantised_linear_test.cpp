// Quantised weights: every tier agrees with a double-precision loop over the dequantised weights
// and the rounded activations; the bits of a row do not depend on the other rows.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "tests/kernels/random_codes.h"
#include "tests/kernels/testing.h"

using caption::ConstView;
using caption::CpuTier;
using caption::DType;
using caption::dtype_size_bytes;
using caption::Error;
using caption::NumberDTypes;
using caption::QuantisedMatrix;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::kernels::linear;
using caption::kernels::linear_add;
using caption::kernels::Weight;
using caption::kernels::cpu::PackedWeight;
using namespace caption::testing;

namespace {

constexpr Kind kAllKinds[] = {Kind::k8,        Kind::k8WithOffsets, Kind::k4,   Kind::k4WithOffsets,
                              Kind::k4InOrder, Kind::kLut,          Kind::k8A8, Kind::k4A8,
                              Kind::kE4M3};

Weight pack(Kind kind, const QuantisedMatrix& matrix) {
  ThreadPool pool(2);
  Stream stream(pool);
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    return slice(matrix, first, count);
  };
  if (kind == Kind::kE4M3) {
    return caption::kernels::place_e4m3(stream, matrix.num_rows(), rows);
  }
  return caption::kernels::place_quantised(stream, format_of(kind), matrix.num_rows(), rows);
}

struct Case {
  std::int64_t m, n, k, group;
};
// Sizes: 1; odd; around the 32 features of a panel and tiles of 8 and 12 rows; short last groups,
// groups that are cut (256), one group longer than K.
constexpr Case kCases[] = {{1, 1, 1, 128},   {3, 5, 7, 4},     {1, 64, 100, 32}, {2, 96, 33, 32},
                           {4, 33, 64, 64},  {8, 31, 130, 64}, {9, 65, 17, 2},   {12, 32, 256, 128},
                           {13, 70, 96, 64}, {25, 63, 50, 16}, {49, 40, 65, 64}, {1, 128, 512, 256},
                           {2, 33, 300, 300}};

}  // namespace

TEST_SUITE_BEGIN("kernels/quantised_linear");

TEST_CASE("agrees with a double-precision loop over what the codes stand for") {
  for (const Case& c : kCases) {
    for (const Kind kind : kAllKinds) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(c.m);
      CAPTURE(c.n);
      CAPTURE(c.k);
      const QuantisedMatrix matrix = random_matrix(kind, c.n, c.k, c.group);
      const Weight packed = pack(kind, matrix);
      const Tensor x = random_f32({c.m, c.k}, 1);
      const Tensor bias = random_of(DType::kBF16, {c.n}, 3);
      const ExactProducts want = exact_products(kind, matrix, x, bias);
      std::vector<double> tolerance;
      for (const double magnitude : want.magnitudes) {
        // A term has at most k additions, and the roundings of scale, offset, bias and product.
        tolerance.push_back((static_cast<double>(c.k) + 8) * kUnit * magnitude);
      }
      for_each_stream([&](Stream& stream) {
        Tensor y(DType::kF32, {c.m, c.n});
        linear(stream, x.view(), packed, bias.view(), y.view());
        check_close(y.as<float>(), want.sums, tolerance);
      });
    }
  }
}

TEST_CASE("a row alone has the bits it has in any batch, with any number of threads") {
  constexpr std::int64_t kRows = 103;
  const Tensor x = random_f32({kRows, 333}, 5);
  for (const Kind kind : kAllKinds) {
    const Weight packed = pack(kind, random_matrix(kind, 77, 333, 128));
    for (const CpuTier tier : TestedTiers()) {
      CAPTURE(static_cast<int>(kind));
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
}

TEST_CASE("codes of any codebook agree with a double-precision loop, alone as in a batch") {
  constexpr std::int64_t kRows = 5;
  constexpr std::int64_t kColumns = 205;
  const Tensor x = random_f32({kRows, kColumns}, 5);
  for (const float first : {-8.0F, 0.0F, -7.0F, 1.0F, 0.5F}) {
    QuantisedMatrix matrix = random_matrix(Kind::k4, 77, kColumns, 32);
    for (std::size_t i = 0; i < 16; ++i) matrix.codebook[i] = first + static_cast<float>(i);
    if (first == 1) matrix.codebook[9] = -3;
    const Weight packed = pack(Kind::k4, matrix);
    const ExactProducts want =
        exact_products(Kind::k4, matrix, x, random_of(DType::kBF16, {77}, 3));
    std::vector<double> tolerance;
    for (const double magnitude : want.magnitudes) {
      tolerance.push_back((static_cast<double>(kColumns) + 8) * kUnit * magnitude);
    }
    for_each_stream([&](Stream& stream) {
      CAPTURE(first);
      Tensor whole(DType::kF32, {kRows, 77});
      linear(stream, x.view(), packed, random_of(DType::kBF16, {77}, 3).view(), whole.view());
      check_close(whole.as<float>(), want.sums, tolerance);
      Tensor alone(DType::kF32, {kRows, 77});
      for (std::int64_t row = 0; row < kRows; ++row) {
        linear(stream, x.view().rows(row, 1), packed, random_of(DType::kBF16, {77}, 3).view(),
               alone.view().rows(row, 1));
      }
      CHECK(same_bits(whole, alone));
    });
  }
}

TEST_CASE("a row of packed codes reads as the values they stand for") {
  for (const Kind kind : kAllKinds) {
    CAPTURE(static_cast<int>(kind));
    const QuantisedMatrix matrix = random_matrix(kind, 70, 201, 64);
    const Weight packed = pack(kind, matrix);
    const Tensor ids = indices({69, 0, 31, 32, 15, 16});
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, {6, 201});
      caption::kernels::embedding(stream, ids.view(), packed, y.view());
      int num_wrong = 0;
      for (std::int64_t t = 0; t < 6; ++t) {
        for (std::int64_t k = 0; k < 201; ++k) {
          if (y.as<float>()[t * 201 + matrix.column_of(k)] !=
              matrix.value(ids.as<std::int32_t>()[t], k)) {
            ++num_wrong;
          }
        }
      }
      CHECK(num_wrong == 0);
    });
  }
}

TEST_CASE("a packed matrix takes the bytes of its codes and scales") {
  CHECK(pack(Kind::k8, random_matrix(Kind::k8, 64, 256, 128)).size_bytes() ==
        64 * 256 + 64 * 2 * 4);
  CHECK(pack(Kind::k4WithOffsets, random_matrix(Kind::k4WithOffsets, 64, 256, 128)).size_bytes() ==
        64 * 128 + 64 * 2 * 8);
  CHECK(pack(Kind::kLut, random_matrix(Kind::kLut, 64, 256, 64)).size_bytes() ==
        64 * 128 + 64 * 4 * 4);
  CHECK(pack(Kind::k8A8, random_matrix(Kind::k8A8, 64, 256, 256)).size_bytes() ==
        64 * 256 + 64 * 4);
  CHECK(pack(Kind::k4A8, random_matrix(Kind::k4A8, 64, 256, 128)).size_bytes() ==
        64 * 128 + 64 * 2 * 2 + 64 * 4);
}

namespace {

// A matrix whose scales and offsets are numbers of these dtypes, which it does not say.
QuantisedMatrix matrix_of(Kind kind, const Case& c, NumberDTypes numbers) {
  QuantisedMatrix matrix = random_matrix(kind, c.n, c.k, c.group);
  matrix.scales = converted(converted(matrix.scales, numbers.scales), DType::kF32);
  if (numbers.offsets != DType::kI8) {
    matrix.offsets = converted(converted(matrix.offsets, numbers.offsets), DType::kF32);
    return matrix;
  }
  // All numbers of 8 bits.
  for (std::int64_t i = 0; i < matrix.offsets.num_elements(); ++i) {
    matrix.offsets.as<float>()[i] =
        matrix.scales.as<float>()[i] * static_cast<float>(i % 256 - 128);
  }
  matrix.scales.as<float>()[0] = 0;
  matrix.offsets.as<float>()[0] = 0;
  return matrix;
}

constexpr NumberDTypes kNumberDTypes[] = {{DType::kF16, DType::kF16}, {DType::kBF16, DType::kBF16},
                                          {DType::kF16, DType::kF32}, {DType::kF32, DType::kBF16},
                                          {DType::kF16, DType::kI8},  {DType::kBF16, DType::kI8},
                                          {DType::kF32, DType::kI8}};

// Products of c.m rows and rows of the matrix are the same in two forms of it.
void check_same_bits(const Case& c, const Weight& first, const Weight& second) {
  const Tensor x = random_f32({c.m, c.k}, 1);
  const Tensor ids = indices({static_cast<std::int32_t>(c.n - 1), 0});
  for_each_stream([&](Stream& stream) {
    Tensor want(DType::kF32, {c.m, c.n});
    Tensor y(DType::kF32, {c.m, c.n});
    linear(stream, x.view(), first, ConstView{}, want.view());
    linear(stream, x.view(), second, ConstView{}, y.view());
    CHECK(same_bits(y, want));
    Tensor want_rows(DType::kF32, {2, c.k});
    Tensor rows(DType::kF32, {2, c.k});
    caption::kernels::embedding(stream, ids.view(), first, want_rows.view());
    caption::kernels::embedding(stream, ids.view(), second, rows.view());
    CHECK(same_bits(rows, want_rows));
  });
}

// Writes multiples of units, which 256 columns share, over numbers [N, groups] of a matrix of
// groups of `group` columns. Returns the units.
Tensor make_multiples(Tensor& numbers, std::int64_t group, std::int64_t smallest) {
  const std::int64_t groups = numbers.dim(1);
  const std::int64_t of_unit = 256 / group;
  Tensor units = random_f32({numbers.dim(0), (groups + of_unit - 1) / of_unit}, 8);
  units = converted(converted(units, DType::kF16), DType::kF32);
  units.as<float>()[0] = 0;
  for (std::int64_t i = 0; i < numbers.num_elements(); ++i) {
    const float unit = units.as<float>()[i / groups * units.dim(1) + i % groups / of_unit];
    numbers.as<float>()[i] = unit * static_cast<float>(smallest + i * 7 % (128 - smallest));
  }
  return units;
}

}  // namespace

TEST_CASE("products have the same bits in whatever dtype scales and offsets are held") {
  for (const Case& c : kCases) {
    for (const Kind kind : {Kind::k8WithOffsets, Kind::k4WithOffsets, Kind::k4InOrder}) {
      for (const NumberDTypes& numbers : kNumberDTypes) {
        CAPTURE(static_cast<int>(kind));
        CAPTURE(caption::dtype_name(numbers.scales));
        CAPTURE(caption::dtype_name(numbers.offsets));
        CAPTURE(c.m);
        CAPTURE(c.n);
        CAPTURE(c.k);
        QuantisedMatrix matrix = matrix_of(kind, c, numbers);
        const Weight in_f32 = pack(kind, matrix);
        matrix.number_dtypes = numbers;
        const Weight packed = pack(kind, matrix);
        CHECK(PackedWeight::of(packed).scales().dtype() == numbers.scales);
        CHECK(PackedWeight::of(packed).offsets().dtype() == numbers.offsets);
        const caption::CodeLayout layout{.is_8_bit = kind == Kind::k8WithOffsets,
                                         .group_columns = c.group,
                                         .has_offsets = true,
                                         .has_column_order = kind == Kind::k4InOrder,
                                         .numbers = numbers};
        CHECK(packed.size_bytes() == caption::kernels::placed_bytes({}, c.n, c.k, layout));
        const std::int64_t saved = 8 - static_cast<std::int64_t>(dtype_size_bytes(numbers.scales) +
                                                                 dtype_size_bytes(numbers.offsets));
        CHECK(in_f32.size_bytes() - packed.size_bytes() ==
              saved * PackedWeight::of(packed).scales().num_elements());
        check_same_bits(c, in_f32, packed);
      }
    }
  }
}

TEST_CASE("products have the same bits where scales and offsets are multiples of units") {
  constexpr NumberDTypes kNumbers = {.scales = DType::kI8, .offsets = DType::kI8};
  for (const Case& c : {Case{1, 40, 600, 32},
                        {1, 64, 512, 16},
                        {3, 33, 512, 16},
                        {9, 70, 256, 32},
                        {17, 64, 1024, 128},
                        {4, 32, 96, 64}}) {
    CAPTURE(c.m);
    CAPTURE(c.n);
    CAPTURE(c.k);
    for (const Kind kind : {Kind::k8, Kind::k8WithOffsets, Kind::k4WithOffsets}) {
      CAPTURE(static_cast<int>(kind));
      QuantisedMatrix matrix = random_matrix(kind, c.n, c.k, c.group);
      matrix.scale_units = make_multiples(matrix.scales, c.group, -128);
      if (matrix.has_offsets()) matrix.offset_units = make_multiples(matrix.offsets, c.group, 0);
      const Weight in_f32 = pack(kind, matrix);
      matrix.number_dtypes = kNumbers;
      const Weight packed = pack(kind, matrix);
      CHECK(PackedWeight::of(packed).scales().dtype() == DType::kI8);
      CHECK(PackedWeight::of(packed).scale_units().dtype() == DType::kF16);
      const caption::CodeLayout layout{.is_8_bit = kind != Kind::k4WithOffsets,
                                       .group_columns = c.group,
                                       .has_offsets = matrix.has_offsets(),
                                       .numbers = kNumbers};
      CHECK(packed.size_bytes() == caption::kernels::placed_bytes({}, c.n, c.k, layout));
      CHECK(packed.size_bytes() < in_f32.size_bytes());
      check_same_bits(c, in_f32, packed);
    }
  }
}

TEST_CASE("a scale that is no multiple of its unit is refused") {
  const auto refused = [&](float scale) {
    QuantisedMatrix matrix = random_matrix(Kind::k8, 32, 256, 32);
    matrix.scale_units = make_multiples(matrix.scales, 32, 0);
    matrix.number_dtypes = {.scales = DType::kI8, .offsets = DType::kI8};
    matrix.scale_units.as<float>()[1] = 0.25F;
    for (std::int64_t g = 0; g < 8; ++g) matrix.scales.as<float>()[8 + g] = 0.25F;
    matrix.scales.as<float>()[9] = scale;
    try {
      pack(Kind::k8, matrix);
      return false;
    } catch (const Error& error) {
      return error.code() == caption::ErrorCode::kInternal;
    }
  };
  CHECK(!refused(0.25F * 127));
  CHECK(refused(0.25F * 128));
  CHECK(refused(0.3F));
}

TEST_CASE("a dtype that does not hold a scale or an offset is refused") {
  QuantisedMatrix matrix =
      matrix_of(Kind::k4WithOffsets, {1, 40, 64, 32}, {DType::kF16, DType::kF16});
  const auto refused = [&](NumberDTypes numbers) {
    matrix.number_dtypes = numbers;
    try {
      pack(Kind::k4WithOffsets, matrix);
      return false;
    } catch (const Error& error) {
      return error.code() == caption::ErrorCode::kInternal;
    }
  };
  CHECK(!refused({.scales = DType::kF16, .offsets = DType::kF16}));
  CHECK(refused({.scales = DType::kBF16, .offsets = DType::kF16}));
  CHECK(refused({.scales = DType::kF16, .offsets = DType::kBF16}));
  CHECK(refused({.scales = DType::kF16, .offsets = DType::kI8}));
}

TEST_CASE("NaN and infinity come through; other rows do not notice") {
  Tensor x = random_f32({3, 40}, 7);
  x.as<float>()[40 + 3] = std::numeric_limits<float>::quiet_NaN();
  x.as<float>()[80 + 5] = std::numeric_limits<float>::infinity();
  for (const Kind kind : kAllKinds) {
    CAPTURE(static_cast<int>(kind));
    const Weight packed = pack(kind, random_matrix(kind, 33, 40, 32));
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
}

TEST_CASE("the residual and the activation come after the sum") {
  const Tensor x = random_f32({5, 64}, 7);
  const Tensor bias = random_f32({70}, 9);
  for (const Kind kind : kAllKinds) {
    const Weight packed = pack(kind, random_matrix(kind, 70, 64, 32));
    for_each_stream([&](Stream& stream) {
      Tensor plain(DType::kF32, {5, 70});
      linear(stream, x.view(), packed, bias.view(), plain.view());
      Tensor added = random_f32({5, 70}, 8);
      const Tensor before = added.clone();
      linear_add(stream, x.view(), packed, bias.view(), added.view());
      Tensor activated(DType::kF32, {5, 70});
      caption::kernels::linear_quick_gelu(stream, x.view(), packed, bias.view(), activated.view());
      Tensor exactly(DType::kF32, {5, 70});
      caption::kernels::linear_gelu(stream, x.view(), packed, bias.view(), exactly.view());
      Tensor separate(DType::kF32, {5, 70});
      gelu_erf(stream, plain.view(), separate.view());
      Tensor by_tanh(DType::kF32, {5, 70});
      caption::kernels::linear_gelu_tanh(stream, x.view(), packed, bias.view(), by_tanh.view());
      Tensor separate_tanh(DType::kF32, {5, 70});
      gelu_tanh(stream, plain.view(), separate_tanh.view());
      for (std::int64_t i = 0; i < plain.num_elements(); ++i) {
        const double v = static_cast<double>(plain.as<float>()[i]);
        const double sum = v + static_cast<double>(before.as<float>()[i]);
        // The bias is added to the sum or to the residual first: the results differ by two
        // roundings.
        CHECK(std::abs(static_cast<double>(added.as<float>()[i]) - sum) <=
              4 * kUnit * (std::abs(v) + std::abs(sum) + 2));
        const double gelu = v / (1 + std::exp(-1.702 * v));
        CHECK(std::abs(static_cast<double>(activated.as<float>()[i]) - gelu) <=
              8 * kUnit * (1 + std::abs(v)));
        CHECK(exactly.as<float>()[i] == separate.as<float>()[i]);
        CHECK(by_tanh.as<float>()[i] == separate_tanh.as<float>()[i]);
      }
    });
  }
}

TEST_CASE("weights are alike when the order of their columns is") {
  const QuantisedMatrix in_order = random_matrix(Kind::k4, 64, 96, 32);
  QuantisedMatrix other = random_matrix(Kind::k4InOrder, 64, 96, 32);
  const Weight a = pack(Kind::k4InOrder, other);
  other.column_order = std::make_shared<const std::vector<std::int32_t>>(*other.column_order);
  const Weight same = pack(Kind::k4InOrder, other);
  std::vector<std::int32_t> order = *other.column_order;
  std::swap(order[0], order[1]);
  other.column_order = std::make_shared<const std::vector<std::int32_t>>(std::move(order));
  CHECK(a.form().is_like(same.form()));
  CHECK_FALSE(a.form().is_like(pack(Kind::k4InOrder, other).form()));
  CHECK_FALSE(a.form().is_like(pack(Kind::k4, in_order).form()));
  CHECK(a.form().describe() == "panels of 4 bits in groups of 32 columns in another order");
}

TEST_CASE("formats that a layout cannot hold are refused") {
  ThreadPool pool(1);
  const QuantisedMatrix odd = random_matrix(Kind::k4, 4, 30, 5);
  CHECK_THROWS_WITH_AS(pack(Kind::k4, odd), doctest::Contains("odd number"), Error);
  const QuantisedMatrix grouped = random_matrix(Kind::k8, 4, 64, 32);
  CHECK_THROWS_WITH_AS(pack(Kind::k8A8, grouped), doctest::Contains("a scale per row"), Error);
}

TEST_SUITE_END();
