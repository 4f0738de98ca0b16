// Quantised weights: every tier agrees with a double-precision loop over the dequantised weights
// and the rounded activations; the bits of a row do not depend on the other rows.
#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "tests/kernels/testing.h"

using caption::ConstView;
using caption::CpuTier;
using caption::DType;
using caption::Error;
using caption::QuantisedMatrix;
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

enum class Kind { k8, k8WithOffsets, k4, k4WithOffsets, k4InOrder, kLut, k8A8, k4A8 };
constexpr Kind kKinds[] = {Kind::k8,        Kind::k8WithOffsets, Kind::k4,   Kind::k4WithOffsets,
                           Kind::k4InOrder, Kind::kLut,          Kind::k8A8, Kind::k4A8};

bool has_8_bit_inputs(Kind kind) { return kind == Kind::k8A8 || kind == Kind::k4A8; }

// A permutation of the columns, another for each K.
caption::ColumnOrder random_order(std::int64_t k) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(k));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(k)));
  return std::make_shared<const std::vector<std::int32_t>>(std::move(order));
}

// Random codes, scales and offsets, independent of any quantisation method.
QuantisedMatrix random_matrix(Kind kind, std::int64_t n, std::int64_t k, std::int64_t group) {
  std::mt19937 engine(static_cast<unsigned>(n * 1000 + k));
  std::uniform_int_distribution<int> byte(0, 255);
  std::uniform_real_distribution<float> positive(0.01F, 0.02F);
  QuantisedMatrix matrix;
  matrix.num_columns = k;
  matrix.group_columns = kind == Kind::k8A8 ? k : group;
  // kPanels4A8 takes groups of a multiple of 4 columns, at most 128.
  if (kind == Kind::k4A8) matrix.group_columns = std::min<std::int64_t>((group + 3) / 4 * 4, 128);
  const bool is_8_bit = kind == Kind::k8 || kind == Kind::k8WithOffsets || kind == Kind::k8A8;
  matrix.codes = is_8_bit ? Tensor(DType::kI8, {n, k}) : Tensor(DType::kU8, {n, (k + 1) / 2});
  for (std::int64_t i = 0; i < matrix.codes.num_elements(); ++i) {
    const int code = byte(engine);
    if (is_8_bit) {
      matrix.codes.as<std::int8_t>()[i] = static_cast<std::int8_t>(std::max(code - 128, -127));
    } else {
      matrix.codes.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(code);
    }
  }
  const std::int64_t groups = matrix.num_groups();
  if (kind == Kind::k4A8) {
    matrix.steps = Tensor(DType::kU8, {n, groups});
    matrix.bases = Tensor(DType::kU8, {n, groups});
    for (std::int64_t i = 0; i < n * groups; ++i) {
      const int step = 1 + byte(engine) % 17;
      matrix.steps.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(step);
      matrix.bases.as<std::uint8_t>()[i] =
          static_cast<std::uint8_t>(byte(engine) % (256 - 15 * step));
    }
  }
  matrix.scales = Tensor(DType::kF32, {n, kind == Kind::k4A8 ? 1 : groups});
  if (kind == Kind::k4WithOffsets || kind == Kind::k8WithOffsets || kind == Kind::k4InOrder) {
    matrix.offsets = random_f32({n, matrix.num_groups()}, 3);
  }
  if (kind == Kind::k4InOrder) matrix.column_order = random_order(k);
  for (std::int64_t i = 0; i < matrix.scales.num_elements(); ++i) {
    matrix.scales.as<float>()[i] = positive(engine);
  }
  for (std::size_t i = 0; i < 16; ++i) {
    const float step = static_cast<float>(i) - 8.0F;
    // As bf16, in which some tiers multiply.
    matrix.codebook[i] =
        caption::to_float(caption::to_bf16(kind == Kind::kLut ? step * step * step / 512 : step));
  }
  return matrix;
}

QuantisedMatrix slice(const QuantisedMatrix& matrix, std::int64_t first, std::int64_t count) {
  const auto rows_of = [&](const Tensor& tensor) {
    if (tensor.empty()) return Tensor();
    Tensor part(tensor.dtype(), {count, tensor.dim(1)});
    const std::size_t row_bytes =
        static_cast<std::size_t>(tensor.dim(1)) * caption::dtype_size_bytes(tensor.dtype());
    std::memcpy(part.view().raw(),
                static_cast<const std::byte*>(tensor.view().raw()) +
                    static_cast<std::size_t>(first) * row_bytes,
                static_cast<std::size_t>(count) * row_bytes);
    return part;
  };
  QuantisedMatrix part;
  part.num_columns = matrix.num_columns;
  part.group_columns = matrix.group_columns;
  part.codes = rows_of(matrix.codes);
  part.scales = rows_of(matrix.scales);
  part.offsets = rows_of(matrix.offsets);
  part.steps = rows_of(matrix.steps);
  part.bases = rows_of(matrix.bases);
  part.codebook = matrix.codebook;
  part.column_order = matrix.column_order;
  return part;
}

Weight pack(Kind kind, const QuantisedMatrix& matrix) {
  ThreadPool pool(2);
  Stream stream(pool);
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    return slice(matrix, first, count);
  };
  const auto packed = [&] {
    if (kind == Kind::k8A8) return PackedWeight::pack_8a8(stream, matrix.num_rows(), rows);
    if (kind == Kind::k4A8) return PackedWeight::pack_4a8(stream, matrix.num_rows(), rows);
    return PackedWeight::pack_quantised(stream, matrix.num_rows(), rows);
  };
  return to_weight(packed(), caption::Device::kCpu);
}

// Returns the activations as the layout rounds them.
std::vector<double> rounded(Kind kind, const Tensor& x) {
  if (!has_8_bit_inputs(kind)) return values(converted(x, DType::kBF16));
  std::vector<double> result = values(x);
  const auto k = static_cast<std::size_t>(x.dim(1));
  for (std::size_t row = 0; row < result.size(); row += k) {
    double largest = 0;
    for (std::size_t i = row; i < row + k; ++i) largest = std::max(largest, std::abs(result[i]));
    for (std::size_t i = row; i < row + k; ++i) {
      // In f32 as in the kernel, because the code of a tie depends on it.
      const float inverse = 127.0F / static_cast<float>(largest);
      const float code = std::nearbyint(static_cast<float>(result[i]) * inverse);
      result[i] = static_cast<double>(code) * largest / 127;
    }
  }
  return result;
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
    for (const Kind kind : kKinds) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(c.m);
      CAPTURE(c.n);
      CAPTURE(c.k);
      const QuantisedMatrix matrix = random_matrix(kind, c.n, c.k, c.group);
      const Weight packed = pack(kind, matrix);
      const Tensor x = random_f32({c.m, c.k}, 1);
      const Tensor bias = random_of(DType::kBF16, {c.n}, 3);
      const std::vector<double> xs = rounded(kind, x);
      const std::vector<double> bs = values(bias);
      std::vector<double> wanted, tolerance;
      for (std::int64_t i = 0; i < c.m; ++i) {
        for (std::int64_t j = 0; j < c.n; ++j) {
          double sum = bs[j];
          double magnitude = std::abs(bs[j]);
          for (std::int64_t l = 0; l < c.k; ++l) {
            const std::int64_t g = j * matrix.num_groups() + l / matrix.group_columns;
            const double code =
                matrix.steps.empty()
                    ? static_cast<double>(matrix.scales.as<float>()[g]) *
                          static_cast<double>(matrix.code_value(j, l))
                    : static_cast<double>(matrix.scales.as<float>()[j]) * matrix.eight_bits(j, l);
            const double offset =
                matrix.offsets.empty() ? 0 : static_cast<double>(matrix.offsets.as<float>()[g]);
            const double input = xs[i * c.k + matrix.column_of(l)];
            sum += input * (code + offset);
            magnitude += std::abs(input) * (std::abs(code) + std::abs(offset));
          }
          wanted.push_back(sum);
          // A term has at most k additions, and the roundings of scale, offset, bias and product.
          tolerance.push_back((static_cast<double>(c.k) + 8) * kUnit * magnitude);
        }
      }
      for_each_stream([&](Stream& stream) {
        Tensor y(DType::kF32, {c.m, c.n});
        linear(stream, x.view(), packed, bias.view(), y.view());
        check_close(y.as<float>(), wanted, tolerance);
      });
    }
  }
}

TEST_CASE("a row alone has the bits it has in any batch, with any number of threads") {
  constexpr std::int64_t kRows = 103;
  const Tensor x = random_f32({kRows, 333}, 5);
  for (const Kind kind : kKinds) {
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

TEST_CASE("a row of packed codes reads as the values they stand for") {
  for (const Kind kind : kKinds) {
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

TEST_CASE("NaN and infinity come through; other rows do not notice") {
  Tensor x = random_f32({3, 40}, 7);
  x.as<float>()[40 + 3] = std::numeric_limits<float>::quiet_NaN();
  x.as<float>()[80 + 5] = std::numeric_limits<float>::infinity();
  for (const Kind kind : kKinds) {
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
  for (const Kind kind : kKinds) {
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
