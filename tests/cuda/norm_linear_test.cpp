#include "kernels/norm_linear.h"

#include <cmath>
#include <functional>
#include <vector>

#include "kernels/cuda/dense_layer.h"
#include "kernels/norm.h"
#include "tests/cuda/dense_testing.h"

using caption::ConstView;
using caption::DType;
using caption::Shape;
using caption::Stream;
using caption::Tensor;
using caption::View;
using namespace caption::kernels;
using caption::kernels::cuda::Layout;
using namespace caption::testing;

namespace {

constexpr float kEps = 1e-6F;

// One row, a group of 8 rows and less, two groups, and more than the kernel for few rows takes. The
// columns are a part of a chunk of 64, several slices of 1,024, or not a multiple of a pack;
// strides and widths permit loads of 16 bytes, or do not.
struct Case {
  Layout layout;
  std::int64_t rows, features, columns;
  DType norm;
  std::int64_t x_stride = 0;
};
constexpr Case kCases[] = {{Layout::kTiles, 1, 19, 20, DType::kF32},
                           {Layout::kTiles, 8, 33, 2092, DType::kBF16},
                           {Layout::kTiles, 5, 16, 1043, DType::kBF16, 1044},
                           {Layout::kTiles, 3, 35, 516, DType::kF16, 517},
                           {Layout::kTiles, 11, 17, 644, DType::kBF16, 648},
                           {Layout::kTiles, 16, 18, 5004, DType::kF32},
                           {Layout::kTiles, 13, 18, 333, DType::kF16},
                           {Layout::kTiles, 17, 35, 1064, DType::kBF16},
                           {Layout::kTiles, 70, 21, 47, DType::kF32},
                           {Layout::kRows, 7, 21, 46, DType::kBF16}};

struct Operands {
  explicit Operands(const Case& c, DType weights = DType::kBF16)
      : x(random_f32({c.rows, c.columns}, 1), c.x_stride),
        norm(random_of(c.norm, {c.columns}, 2)),
        rows(random_of(weights, {c.features, c.columns}, 3)),
        other_rows(random_of(weights, {c.features, c.columns}, 4)),
        weight(rows, c.layout),
        other(other_rows, c.layout),
        bias(random_of(DType::kBF16, {c.features}, 5)),
        normed(DType::kF32, {c.rows, c.columns}),
        y(DType::kF32, {c.rows, c.features}, c.features + 1),
        other_y(DType::kF32, {c.rows, c.features}) {}

  RowsToNorm input() const {
    return {.x = x.view(), .weight = norm.view(), .eps = kEps, .normed = normed.view()};
  }
  std::vector<LinearPart> parts() const {
    return {{weight.get(), bias.view(), y.view()}, {other.get(), {}, other_y.view()}};
  }
  BiasedWeight gate() const { return {weight.get(), bias.view()}; }
  BiasedWeight up() const { return {other.get()}; }

  DeviceTensor x, norm;
  Tensor rows, other_rows;
  DeviceWeight weight, other;
  DeviceTensor bias, normed, y, other_y;
};

template <class Work>
void for_each_case(Work work) {
  for (const DType weights : {DType::kBF16, DType::kF16}) {
    for (const Case& c : kCases) {
      CAPTURE(c.rows);
      CAPTURE(c.columns);
      work(c, weights);
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("cuda/norm_linear");

TEST_CASE("layers of normalised rows have the bits of the norm and the layers, one by one") {
  for (const Case& c : kCases) {
    CAPTURE(c.rows);
    CAPTURE(c.columns);
    for (const auto sums : kArithmetics) {
      const Operands want(c);
      run_with({.sums = sums}, [&](Stream& stream) {
        rms_norm(stream, want.x.view(), want.norm.view(), kEps, want.normed.view());
        linear(stream, want.normed.view(), want.parts());
      });
      for (const std::uint64_t seed : kSeeds) {
        const Operands got(c);
        run_with({.seed = seed, .sums = sums},
                 [&](Stream& stream) { norm_linear(stream, got.input(), got.parts()); });
        CHECK(same_bits(got.y.to_host(), want.y.to_host()));
        CHECK(same_bits(got.other_y.to_host(), want.other_y.to_host()));
      }
    }
  }
}

TEST_CASE("SwiGLU of normalised rows has the bits of the norm and SwiGLU, one by one") {
  for_each_case([](const Case& c, DType weights) {
    const Operands want(c, weights);
    run_with({}, [&](Stream& stream) {
      rms_norm(stream, want.x.view(), want.norm.view(), kEps, want.normed.view());
      linear_swiglu(stream, want.normed.view(), want.gate(), want.up(), want.y.view());
    });
    for (const std::uint64_t seed : kSeeds) {
      const Operands got(c, weights);
      const caption::Context gpu{.device = caption::Device::kCuda,
                                 .compute_capability = weights == DType::kF16 ? 75 : 80};
      run_with({.seed = seed}, gpu, [&](Stream& stream) {
        norm_linear_swiglu(stream, got.input(), got.gate(), got.up(), got.y.view());
      });
      CHECK(same_bits(got.y.to_host(), want.y.to_host()));
    }
  });
}

TEST_CASE("a row has the same bits alone and beside any number of others") {
  const Case whole{Layout::kTiles, 40, 20, 1300, DType::kBF16};
  const Operands all(whole);
  run_with({}, [&](Stream& stream) { norm_linear(stream, all.input(), all.parts()); });
  const Tensor want = all.y.to_host();
  for (const std::int64_t rows : {1, 4, 9, 16, 17, 39}) {
    CAPTURE(rows);
    const Operands some(whole);
    RowsToNorm input = some.input();
    input.x = input.x.rows(0, rows);
    input.normed = input.normed.rows(0, rows);
    const DeviceTensor y(DType::kF32, {rows, 20});
    const LinearPart part{some.weight.get(), some.bias.view(), y.view()};
    run_with({.seed = 3}, [&](Stream& stream) { norm_linear(stream, input, std::span(&part, 1)); });
    const Tensor got = y.to_host();
    CHECK(std::memcmp(got.as<float>(), want.as<float>(), got.size_bytes()) == 0);
  }
}

TEST_CASE("up to 16 rows that the kernel for few rows normalises itself have the same bits") {
  for_each_case([](const Case& c, DType weights) {
    if (c.layout != Layout::kTiles || c.rows > cuda::kMostFewRows) return;
    const Operands want(c, weights);
    run_with({}, [&](Stream& stream) {
      rms_norm(stream, want.x.view(), want.norm.view(), kEps, want.normed.view());
      linear(stream, want.normed.view(), want.parts());
    });
    for (const std::uint64_t seed : kSeeds) {
      const Operands got(c, weights);
      const RowsToNorm input = got.input();
      const std::vector<LinearPart> parts = got.parts();
      const auto report = run_emulated(seed, [&](Stream& stream) {
        cuda::multiply_tiles(stream, {.x = input.x, .parts = parts, .norm = &input});
      });
      CHECK(report.launches == 1);
      CHECK(same_bits(got.y.to_host(), want.y.to_host()));
      CHECK(same_bits(got.other_y.to_host(), want.other_y.to_host()));
    }
  });
}

TEST_CASE("at most 8 rows are normalised, rounded and multiplied by one launch") {
  for (const auto& [rows, launches] : {std::pair{1, 1}, {8, 1}, {9, 2}, {17, 2}}) {
    const Operands operands({Layout::kTiles, rows, 32, 64, DType::kBF16});
    const auto report = run_emulated(0, [&](Stream& stream) {
      norm_linear_swiglu(stream, operands.input(), operands.gate(), operands.up(),
                         operands.y.view());
    });
    CHECK(report.launches == launches);
  }
}

TEST_CASE("neither weights nor rows are moved twice over, nor banks met twice") {
  for (const std::int64_t rows : {1, 8, 16}) {
    CAPTURE(rows);
    const Operands operands({Layout::kTiles, rows, 32, 2048, DType::kF32});
    const DeviceTensor y(DType::kF32, {rows, 32});
    const LinearPart part{operands.weight.get(), operands.bias.view(), y.view()};
    check_wastes_nothing(
        [&](Stream& stream) { norm_linear(stream, operands.input(), std::span(&part, 1)); }, 2);
  }
}

TEST_SUITE_END();
