// Weights held as codes on the emulated GPU: what is placed reads as the matrix, and products agree
// with a double-precision loop, or with the CPU's bits where they are integers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/dense_layer.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/swiglu.h"
#include "tests/cuda/dense_testing.h"
#include "tests/kernels/random_codes.h"

using caption::ConstView;
using caption::DType;
using caption::MatrixFormat;
using caption::QuantisedMatrix;
using caption::Stream;
using caption::Tensor;
using caption::cuda_emulator::Options;
using caption::cuda_emulator::TensorCoreSums;
using caption::kernels::LinearPart;
using caption::kernels::Weight;
using caption::kernels::cuda::CodeBlocks;
using caption::kernels::cuda::multiply_codes;
using namespace caption::testing;

namespace {

Weight place(Stream& stream, Kind kind, const QuantisedMatrix& matrix) {
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    return slice(matrix, first, count);
  };
  return caption::kernels::place_quantised(stream, format_of(kind), matrix.num_rows(), rows);
}

// x * matrix^T + bias, with x and y strided.
Tensor product(Kind kind, const QuantisedMatrix& matrix, const Tensor& x, const Tensor& bias,
               const Options& options = {}) {
  const DeviceTensor device_x(x, x.dim(1) + 4 - x.dim(1) % 4);
  const DeviceTensor device_bias(bias);
  const DeviceTensor y(DType::kF32, {x.dim(0), matrix.num_rows()}, matrix.num_rows() + 1);
  run_with(options, [&](Stream& stream) {
    const Weight weight = place(stream, kind, matrix);
    caption::kernels::linear(stream, device_x.view(), weight, device_bias.view(), y.view());
  });
  return y.to_host();
}

// Extents of the product, and columns per group. No extent is a multiple of a tile but in one case;
// groups are of 1 to 128 columns, cut from 256 and 300, whole rows, and each multiple of 16 that a
// group is padded to has another slice; 3,000 columns give two warps two slices.
struct Case {
  std::int64_t m, n, k, group;
};
constexpr Case kCases[] = {
    {1, 1, 1, 128},    {3, 5, 7, 4},      {2, 33, 300, 300}, {9, 17, 1300, 128}, {5, 3, 3000, 64},
    {33, 31, 130, 96}, {70, 18, 333, 48}, {8, 32, 640, 32},  {17, 18, 201, 16},  {4, 20, 900, 10},
    {2, 7, 33, 2},     {1, 50, 512, 256}, {6, 9, 1000, 100}, {7, 5, 601, 72},    {2, 3, 555, 62}};

// The element [m, n] of x * matrix^T in the order that kernels/cuda/multiply_codes.cu states, for
// groups of 64 columns, which are not padded. Only one row and one column of the tensor core's
// matrices are used: sums of others are apart.
float sum_in_order(const QuantisedMatrix& matrix, const Tensor& x, std::int64_t m, std::int64_t n,
                   TensorCoreSums sums) {
  constexpr std::int64_t kGroup = 64;
  constexpr std::int64_t kSliceGroups = 8;
  const std::int64_t columns = matrix.num_columns;
  const auto* const xs = x.as<float>() + m * columns;
  float total = 0;
  float slice = 0;
  for (std::int64_t g = 0; g < matrix.num_groups(); ++g) {
    caption::cuda_emulator::MatrixC c{};
    const std::int64_t first = g * kGroup;
    for (std::int64_t step = 0; step < kGroup; step += 16) {
      caption::cuda_emulator::MatrixA a{};
      caption::cuda_emulator::MatrixB b{};
      for (std::int64_t i = 0; i < 16; ++i) {
        // Lane t of a step of 16 takes 4 of its 8 adjacent columns: 2 t, 2 t + 1 of each half.
        const std::int64_t t = i % 8 / 2;
        const std::int64_t k =
            first + step / 32 * 32 + t * 8 + step / 16 % 2 * 4 + i / 8 * 2 + i % 2;
        if (k >= columns) continue;
        a.element[0][i] = caption::to_bf16(matrix.code_value(n, k)).bits;
        b.element[i][0] = caption::to_bf16(xs[k]).bits;
      }
      multiply_add(sums, caption::cuda_emulator::HalfType::kBF16, a, b, c);
    }
    const float scale = matrix.scales.as<float>()[n * matrix.num_groups() + g];
    slice = std::fma(scale, c.element[0][0], slice);
    if (g % kSliceGroups == kSliceGroups - 1 || g + 1 == matrix.num_groups()) {
      total += slice;
      slice = 0;
    }
  }
  return total;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/codes");

TEST_CASE("a row of placed codes reads as the values they stand for, bit for bit") {
  for (const Kind kind : kKinds) {
    for (const Case& c : kCases) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(c.k);
      CAPTURE(c.group);
      const std::int64_t num_rows = c.n + 40;  // more than place_quantised() asks for at once
      const QuantisedMatrix matrix = random_matrix(kind, num_rows, c.k, c.group);
      std::vector<std::int32_t> all(static_cast<std::size_t>(num_rows));
      std::iota(all.rbegin(), all.rend(), 0);
      const DeviceTensor ids(indices(all));
      const DeviceTensor y(DType::kF32, {num_rows, c.k}, c.k + 3);
      run_with({.seed = 1}, [&](Stream& stream) {
        const Weight weight = place(stream, kind, matrix);
        caption::kernels::embedding(stream, ids.view(), weight, y.view());
      });
      const Tensor got = y.to_host();
      int wrong = 0;
      for (std::int64_t t = 0; t < num_rows; ++t) {
        for (std::int64_t k = 0; k < c.k; ++k) {
          wrong += got.as<float>()[t * c.k + matrix.column_of(k)] !=
                   matrix.value(all[static_cast<std::size_t>(t)], k);
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("products agree with a double-precision loop, in every arithmetic and order") {
  for (const Kind kind : kKinds) {
    for (const Case& c : kCases) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(c.k);
      CAPTURE(c.group);
      const QuantisedMatrix matrix = random_matrix(kind, c.n, c.k, c.group);
      const Tensor x = random_f32({c.m, c.k}, 1);
      const Tensor bias = random_f32({c.n}, 2);
      const ExactProducts want = exact_products(kind, matrix, x, bias);
      // A step of 8 or 16 products cuts up to 17 terms by 2^-24 of the greatest, and its sum by
      // 2^-23; a group has at most 128 columns, 16 steps. Fused sums round each of 128 columns by
      // 2^-24, as the sum of a group's x does. Then each group is added, its offset, and each
      // slice.
      const auto groups = static_cast<double>(c.k / std::min<std::int64_t>(c.group, 128) + 1);
      std::vector<double> tolerance;
      for (const double magnitude : want.magnitudes) {
        tolerance.push_back((16 * 19 + 128 + 3 * groups + 8) * kUnit * magnitude);
      }
      for (const TensorCoreSums sums : kArithmetics) {
        const Tensor got = product(kind, matrix, x, bias, {.seed = 0, .sums = sums});
        check_close(got.as<float>(), want.sums, tolerance);
        CHECK(same_bits(product(kind, matrix, x, bias, {.seed = 3, .sums = sums}), got));
      }
    }
  }
}

TEST_CASE("products with 8-bit activations have the CPU's bits") {
  for (const Kind kind : {Kind::k8A8, Kind::k4A8}) {
    for (const Case& c : kCases) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(c.k);
      CAPTURE(c.group);
      const QuantisedMatrix matrix = random_matrix(kind, c.n, c.k, c.group);
      const Tensor x = random_f32({c.m, c.k}, 1);
      const Tensor bias = random_f32({c.n}, 2);
      Tensor want(DType::kF32, {c.m, c.n});
      run_on_cpu([&](Stream& stream) {
        const Weight weight = place(stream, kind, matrix);
        caption::kernels::linear(stream, x.view(), weight, bias.view(), want.view());
      });
      CHECK(same_bits(product(kind, matrix, x, bias, {.seed = 2}), want));
    }
  }
}

TEST_CASE("a row has the same bits alone and beside any number of others") {
  for (const Kind kind : kKinds) {
    CAPTURE(static_cast<int>(kind));
    const QuantisedMatrix matrix = random_matrix(kind, 20, 1300, 128);
    const Tensor x = random_f32({70, 1300}, 4);
    const Tensor bias = random_f32({20}, 2);
    const Tensor all = product(kind, matrix, x, bias);
    for (const std::int64_t rows : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65}) {
      CAPTURE(rows);
      const Tensor got = product(kind, matrix, first_rows(x, rows), bias, {.seed = 5});
      CHECK(std::memcmp(got.as<float>(), all.as<float>(), got.size_bytes()) == 0);
    }
  }
}

TEST_CASE("blocks of many rows have the bits of blocks of few") {
  // Rows and features around the edges of blocks; groups that end within tiles and with them, with
  // columns beyond the matrix; two slices and a part of one; more blocks of rows than one.
  constexpr Case kTiledCases[] = {{97, 37, 330, 128}, {49, 130, 201, 16}, {65, 20, 640, 96},
                                  {13, 70, 1100, 64}, {96, 3, 62, 32},    {41, 33, 555, 62},
                                  {33, 17, 33, 2},    {64, 64, 300, 300}};
  for (const Kind kind : kKinds) {
    if (has_8_bit_inputs(kind)) continue;
    for (const Case& c : kTiledCases) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(c.m);
      CAPTURE(c.k);
      const QuantisedMatrix matrix = random_matrix(kind, c.n, c.k, c.group);
      const bool is_turing = c.n % 2 == 0;  // f16
      const TensorCoreSums sums = c.m % 2 == 0 ? TensorCoreSums::kHopper : TensorCoreSums::kAmpere;
      const DeviceTensor x(random_f32({c.m, c.k}, 1));
      const DeviceTensor bias(random_f32({c.n}, 2));
      const auto run = [&](CodeBlocks blocks, std::uint64_t seed) {
        const DeviceTensor y(DType::kF32, {c.m, c.n});
        const caption::cuda_emulator::Emulation emulation({.seed = seed, .sums = sums});
        caption::ThreadPool pool(1);
        Stream stream({.device = caption::Device::kCuda, .compute_capability = is_turing ? 75 : 80},
                      pool);
        const Weight weight = place(stream, kind, matrix);
        const LinearPart part{weight, bias.view(), y.view()};
        multiply_codes(stream, {.x = x.view(), .parts = {&part, 1}}, blocks);
        stream.synchronize();
        CHECK(emulation.report().describe_faults() == "");
        return y.to_host();
      };
      const Tensor want = run(CodeBlocks::kFewRows, 0);
      CHECK(same_bits(run(CodeBlocks::kSmall, 8), want));
      CHECK(same_bits(run(CodeBlocks::kLarge, 9), want));
    }
  }
}

TEST_CASE(
    "parts, sums that are added and swiglu by blocks of many rows have the bits of blocks of few") {
  for (const auto& [kind, capability] :
       {std::pair{Kind::k8, 80}, std::pair{Kind::k4WithOffsets, 80}, std::pair{Kind::kLut, 80},
        std::pair{Kind::k8, 75}, std::pair{Kind::k4WithOffsets, 75}, std::pair{Kind::kLut, 75}}) {
    CAPTURE(static_cast<int>(kind));
    CAPTURE(capability);
    const QuantisedMatrix matrices[] = {random_matrix(kind, 75, 200, 64),
                                        random_matrix(kind, 18, 200, 64),
                                        random_matrix(kind, 75, 200, 64)};
    const caption::Context gpu{.device = caption::Device::kCuda, .compute_capability = capability};
    const auto run = [&, kind = kind](CodeBlocks blocks) {
      return multiply_parts({.seed = 7}, gpu, blocks, [&](Stream& stream, int i) {
        return place(stream, kind, matrices[i]);
      });
    };
    const std::vector<Tensor> want = run(CodeBlocks::kFewRows);
    for (const CodeBlocks blocks : {CodeBlocks::kSmall, CodeBlocks::kLarge}) {
      const std::vector<Tensor> got = run(blocks);
      for (std::size_t i = 0; i < want.size(); ++i) CHECK(same_bits(got[i], want[i]));
    }
  }
}

TEST_CASE("with more rows, neither codes nor x are moved twice over, nor banks met twice") {
  for (const Kind kind : {Kind::k8WithOffsets, Kind::k4WithOffsets, Kind::kLut}) {
    CAPTURE(static_cast<int>(kind));
    const DeviceTensor x(random_f32({96, 256}, 6));
    const DeviceTensor y(DType::kF32, {96, 128});
    std::optional<Weight> weight;
    run_with({}, [&](Stream& stream) {
      const std::int64_t group = kind == Kind::kLut ? 64 : 128;
      weight.emplace(place(stream, kind, random_matrix(kind, 128, 256, group)));
    });
    for (const CodeBlocks blocks : {CodeBlocks::kSmall, CodeBlocks::kLarge}) {
      const LinearPart part{*weight, {}, y.view()};
      check_wastes_nothing(
          [&](Stream& stream) {
            multiply_codes(stream, {.x = x.view(), .parts = {&part, 1}}, blocks);
          },
          4);
    }
  }
}

TEST_CASE("the order of a sum is that of its groups and slices") {
  for (const Kind kind : {Kind::k4, Kind::k8}) {
    const QuantisedMatrix matrix = random_matrix(kind, 19, 2800, 64);
    const Tensor x = random_f32({9, 2800}, 3);
    const Tensor none = Tensor::zeros(DType::kF32, {19});
    for (const TensorCoreSums sums : {TensorCoreSums::kAmpere, TensorCoreSums::kHopper}) {
      const Tensor got = product(kind, matrix, x, none, {.seed = 4, .sums = sums});
      int different = 0;
      for (const std::int64_t m : {0, 5, 8}) {
        for (const std::int64_t n : {0, 7, 8, 18}) {
          different += got.as<float>()[m * 19 + n] != sum_in_order(matrix, x, m, n, sums);
        }
      }
      CHECK(different == 0);
    }
  }
}

TEST_CASE("a GPU whose tensor cores lack bf16 multiplies f16") {
  for (const Kind kind : {Kind::k8WithOffsets, Kind::k4, Kind::kLut}) {
    CAPTURE(static_cast<int>(kind));
    const QuantisedMatrix matrix = random_matrix(kind, 21, 301, 64);
    Tensor x = random_f32({37, 301}, 8);
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {  // numbers of both types
      x.as<float>()[i] = std::nearbyint(x.as<float>()[i] * 127) / 128;
    }
    const Tensor none = Tensor::zeros(DType::kF32, {21});
    for (const std::int64_t rows : {3, 11, 37}) {
      CAPTURE(rows);
      const Tensor some = first_rows(x, rows);
      for (const TensorCoreSums sums : {TensorCoreSums::kAmpere, TensorCoreSums::kHopper}) {
        const Options options{.seed = 7, .sums = sums};
        const DeviceTensor device_x(some);
        const DeviceTensor y(DType::kF32, {rows, 21});
        {
          const caption::cuda_emulator::Emulation emulation(options);
          caption::ThreadPool pool(1);
          Stream stream({.device = caption::Device::kCuda, .compute_capability = 75}, pool);
          const Weight weight = place(stream, kind, matrix);
          Stream newer({.device = caption::Device::kCuda, .compute_capability = 80}, pool);
          CHECK_FALSE(weight.form().is_like(place(newer, kind, matrix).form()));
          caption::kernels::linear(stream, device_x.view(), weight, ConstView{}, y.view());
          stream.synchronize();
          CHECK(emulation.report().describe_faults() == "");
        }
        CHECK(same_bits(y.to_host(), product(kind, matrix, some, none, options)));
      }
    }
  }
}

TEST_CASE("NaN and infinity come through; other rows do not notice") {
  Tensor x = random_f32({3, 40}, 7);
  x.as<float>()[40 + 3] = std::numeric_limits<float>::quiet_NaN();
  x.as<float>()[80 + 5] = std::numeric_limits<float>::infinity();
  for (const Kind kind : kKinds) {
    CAPTURE(static_cast<int>(kind));
    const Tensor got = product(kind, random_matrix(kind, 33, 40, 32), x, random_f32({33}, 2));
    for (std::int64_t n = 0; n < 33; ++n) {
      CHECK(std::isfinite(got.as<float>()[n]));
      CHECK(std::isnan(got.as<float>()[33 + n]));
      CHECK_FALSE(std::isfinite(got.as<float>()[66 + n]));
    }
  }
}

TEST_CASE(
    "parts in one launch have the bits of separate ones, and swiglu those of its operations") {
  for (const Kind kind : {Kind::k4WithOffsets, Kind::kLut, Kind::k8A8}) {
    CAPTURE(static_cast<int>(kind));
    const QuantisedMatrix first = random_matrix(kind, 37, 1100, 128);
    const QuantisedMatrix second = random_matrix(kind, 18, 1100, 128);
    const QuantisedMatrix third = random_matrix(kind, 37, 1100, 128);
    const DeviceTensor x(random_f32({11, 1100}, 5));
    const DeviceTensor bias(random_f32({37}, 6));
    const DeviceTensor ys[] = {
        {DType::kF32, {11, 37}}, {DType::kF32, {11, 18}}, {DType::kF32, {11, 37}}};
    const DeviceTensor alone[] = {
        {DType::kF32, {11, 37}}, {DType::kF32, {11, 18}}, {DType::kF32, {11, 37}}};
    const DeviceTensor swiglu(DType::kBF16, {11, 37});
    const DeviceTensor wanted(DType::kBF16, {11, 37});
    run_with({.seed = 6}, [&](Stream& stream) {
      const Weight a = place(stream, kind, first);
      const Weight b = place(stream, kind, second);
      const Weight c = place(stream, kind, third);
      const LinearPart parts[] = {
          {a, {}, ys[0].view()}, {b, {}, ys[1].view()}, {c, bias.view(), ys[2].view()}};
      caption::kernels::linear(stream, x.view(), parts);
      const LinearPart separate[] = {
          {a, {}, alone[0].view()}, {b, {}, alone[1].view()}, {c, bias.view(), alone[2].view()}};
      for (const LinearPart& part : separate) {
        caption::kernels::linear(stream, x.view(), {&part, 1});
      }
      caption::kernels::linear_swiglu(stream, x.view(), {a}, {c, bias.view()}, swiglu.view());
      caption::kernels::swiglu(stream, alone[0].view(), alone[2].view(), wanted.view());
    });
    for (int i = 0; i < 3; ++i) CHECK(same_bits(ys[i].to_host(), alone[i].to_host()));
    CHECK(same_bits(swiglu.to_host(), wanted.to_host()));
  }
}

TEST_CASE("codes and x are read once, and nothing of them twice over") {
  for (const Kind kind : {Kind::k8, Kind::k4WithOffsets, Kind::k4, Kind::kLut, Kind::k8A8}) {
    CAPTURE(static_cast<int>(kind));
    const QuantisedMatrix matrix = random_matrix(kind, 32, 2048, 128);
    const DeviceTensor x(random_f32({8, 2048}, 6));
    const DeviceTensor y(DType::kF32, {8, 32});
    std::optional<Weight> weight;
    run_with({}, [&](Stream& stream) { weight.emplace(place(stream, kind, matrix)); });
    const auto report = run_counted([&](Stream& stream) {
      caption::kernels::linear(stream, x.view(), *weight, ConstView{}, y.view());
    });
    CHECK(report.describe_waste(1.05) == "");
  }
}

TEST_CASE("a form says what it takes and is") {
  run_with({}, [&](Stream& stream) {
    for (const Kind kind : kKinds) {
      for (const Case& c : kCases) {
        if (has_8_bit_inputs(kind)) continue;
        const QuantisedMatrix matrix = random_matrix(kind, c.n, c.k, c.group);
        const caption::CodeLayout layout{.is_8_bit = !matrix.is_4_bit(),
                                         .group_columns = c.group,
                                         .has_offsets = !matrix.offsets.empty(),
                                         .has_column_order = matrix.column_order != nullptr};
        CHECK(place(stream, kind, matrix).size_bytes() ==
              caption::kernels::placed_bytes(stream.context(), c.n, c.k, layout));
      }
    }
    const auto bytes = [&](Kind kind, MatrixFormat format) {
      const QuantisedMatrix matrix = random_matrix(kind, 37, 700, 128);
      const Weight weight = place(stream, kind, matrix);
      CHECK(weight.size_bytes() ==
            caption::kernels::placed_bytes(stream.context(), 37, 700, format, DType::kF32));
    };
    bytes(Kind::k8, MatrixFormat::kInt8);
    bytes(Kind::k4WithOffsets, MatrixFormat::kInt4);
    bytes(Kind::k8A8, MatrixFormat::kInt8Row);
    bytes(Kind::k4A8, MatrixFormat::kInt4A8);
    CHECK(
        place(stream, Kind::kLut, random_matrix(Kind::kLut, 37, 700, 64)).size_bytes() ==
        caption::kernels::placed_bytes(stream.context(), 37, 700, MatrixFormat::kNf4, DType::kF32));

    QuantisedMatrix ordered = random_matrix(Kind::k4InOrder, 64, 96, 32);
    const Weight a = place(stream, Kind::k4InOrder, ordered);
    ordered.column_order = std::make_shared<const std::vector<std::int32_t>>(*ordered.column_order);
    CHECK(a.form().is_like(place(stream, Kind::k4InOrder, ordered).form()));
    std::vector<std::int32_t> order = *ordered.column_order;
    std::swap(order[0], order[1]);
    ordered.column_order = std::make_shared<const std::vector<std::int32_t>>(std::move(order));
    CHECK_FALSE(a.form().is_like(place(stream, Kind::k4InOrder, ordered).form()));
    const Weight plain = place(stream, Kind::k4, random_matrix(Kind::k4, 64, 96, 32));
    CHECK_FALSE(a.form().is_like(plain.form()));
    const Weight other = place(stream, Kind::k4, random_matrix(Kind::k4, 64, 96, 48));
    CHECK_FALSE(plain.form().is_like(other.form()));
    const Weight table = place(stream, Kind::kLut, random_matrix(Kind::kLut, 64, 96, 32));
    CHECK_FALSE(plain.form().is_like(table.form()));
    CHECK(a.form().describe() ==
          "tiles of 4 bits in groups of 32 columns with offsets, in another order");
  });
}

TEST_CASE("matrices that no form holds are refused") {
  run_with({}, [&](Stream& stream) {
    const QuantisedMatrix grouped = random_matrix(Kind::k8, 4, 64, 32);
    CHECK_THROWS_WITH_AS(place(stream, Kind::k8A8, grouped), doctest::Contains("one scale"),
                         caption::Error);
    const QuantisedMatrix uneven = random_matrix(Kind::k8, 4, 600, 200);
    CHECK_THROWS_WITH_AS(place(stream, Kind::k8, uneven), doctest::Contains("groups of 200"),
                         caption::Error);
    const QuantisedMatrix steps = random_matrix(Kind::k4A8, 4, 64, 32);
    CHECK_THROWS_WITH_AS(place(stream, Kind::k4, steps), doctest::Contains("only int4_a8"),
                         caption::Error);
    const QuantisedMatrix without = random_matrix(Kind::k4, 4, 64, 32);
    CHECK_THROWS_WITH_AS(place(stream, Kind::k4A8, without), doctest::Contains("with steps"),
                         caption::Error);
  });
}

TEST_SUITE_END();
