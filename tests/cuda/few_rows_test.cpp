#include "kernels/cuda/few_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "tests/cuda/testing.h"

using caption::DType;
using caption::Stream;
using caption::Tensor;
using caption::cuda_emulator::Emulation;
using caption::cuda_emulator::multiply_add;
using caption::cuda_emulator::TensorCoreSums;
using caption::kernels::cuda::multiply_few_rows;
using caption::kernels::cuda::pack_w16;
using caption::kernels::cuda::packed_w16_bytes;
using caption::kernels::cuda::PackedW16;
using namespace caption::testing;

namespace {

// No size is a multiple of a tile's 16, of a group's 8 rows or of a slice's 1,024 columns, but in
// the first case; 5,003 columns give every warp a slice and one warp two.
struct Case {
  std::int64_t rows, features, columns;
  DType weight, x;
  std::int64_t x_stride = 0;
};
constexpr Case kCases[] = {
    {8, 32, 1024, DType::kBF16, DType::kBF16},       {1, 1, 1, DType::kF16, DType::kF32},
    {3, 37, 41, DType::kBF16, DType::kBF16, 42},     {13, 19, 1102, DType::kF16, DType::kF16},
    {16, 18, 2085, DType::kBF16, DType::kF32, 2086}, {5, 7, 5003, DType::kBF16, DType::kBF16}};

// A matrix on the emulated GPU, packed.
struct Packed {
  explicit Packed(const Tensor& rows)
      : tiles(DType::kU8, {static_cast<std::int64_t>(packed_w16_bytes(rows.dim(0), rows.dim(1)))}) {
    const DeviceTensor device_rows(rows, rows.dim(1) + 3);
    run_emulated(1, [&](Stream& stream) {
      weight = pack_w16(stream, device_rows.view(), tiles.view().raw());
    });
  }
  DeviceTensor tiles;
  PackedW16 weight;
};

Tensor product(const Tensor& x, const Packed& packed,
               const caption::cuda_emulator::Options& options, std::int64_t x_stride = 0) {
  const DeviceTensor device_x(x, x_stride);
  const DeviceTensor y(DType::kF32, {x.dim(0), packed.weight.num_features},
                       packed.weight.num_features + 1);
  const Emulation emulation(options);
  caption::ThreadPool pool(1);
  Stream stream(caption::Context{.device = caption::Device::kCuda}, pool);
  multiply_few_rows(stream, device_x.view(), packed.weight, y.view());
  CHECK(emulation.report().describe_faults() == "");
  return y.to_host();
}

// The element [m, n] of x * w^T in the order that kernels/cuda/few_rows.h states. Of the tensor
// core's matrices only one row and one column are used: sums of others are apart.
float sum_in_order(const Tensor& x, const Tensor& w, std::int64_t m, std::int64_t n,
                   TensorCoreSums sums) {
  const std::int64_t columns = w.dim(1);
  const auto* const xs = x.as<caption::BF16>() + m * columns;
  const auto* const ws = w.as<caption::BF16>() + n * columns;
  float total = 0;
  for (std::int64_t slice = 0; slice < columns; slice += 1024) {
    caption::cuda_emulator::MatrixC c{};
    for (std::int64_t step = slice; step < std::min(slice + 1024, columns); step += 16) {
      caption::cuda_emulator::MatrixA a{};
      caption::cuda_emulator::MatrixB b{};
      for (std::int64_t k = step; k < std::min(step + 16, columns); ++k) {
        a.element[0][k - step] = ws[k].bits;
        b.element[k - step][0] = xs[k].bits;
      }
      multiply_add(sums, caption::cuda_emulator::HalfType::kBF16, a, b, c);
    }
    total += c.element[0][0];
  }
  return total;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/few_rows");

TEST_CASE("sums are made in slices of 1,024 columns, which are added in their order") {
  for (const std::int64_t columns : {1024, 1030, 5003}) {
    CAPTURE(columns);
    const Tensor w = random_of(DType::kBF16, {17, columns}, 9);
    const Tensor x = random_of(DType::kBF16, {9, columns}, 10);
    const Packed packed(w);
    for (const TensorCoreSums sums :
         {TensorCoreSums::kAmpere, TensorCoreSums::kHopper, TensorCoreSums::kFused}) {
      const Tensor got = product(x, packed, {.seed = 4, .sums = sums});
      int different = 0;
      for (const std::int64_t m : {0, 5, 8}) {
        for (const std::int64_t n : {0, 11, 16}) {
          different += got.as<float>()[m * 17 + n] != sum_in_order(x, w, m, n, sums);
        }
      }
      CHECK(different == 0);
    }
  }
}

TEST_CASE("products agree with a double-precision loop in every arithmetic and order") {
  for (const Case& c : kCases) {
    CAPTURE(c.rows);
    CAPTURE(c.columns);
    const Tensor w = random_of(c.weight, {c.features, c.columns}, 1);
    const Tensor x = random_of(c.x, {c.rows, c.columns}, 2);
    const std::vector<double> ws = values(w);
    const std::vector<double> xs = values(converted(x, c.weight));  // as the kernel rounds it
    std::vector<double> want;
    std::vector<double> tolerance;
    for (std::int64_t m = 0; m < c.rows; ++m) {
      for (std::int64_t n = 0; n < c.features; ++n) {
        double sum = 0;
        double magnitude = 0;
        for (std::int64_t k = 0; k < c.columns; ++k) {
          const double term = xs[m * c.columns + k] * ws[n * c.columns + k];
          sum += term;
          magnitude += std::abs(term);
        }
        want.push_back(sum);
        // A step of 8 or 16 products cuts up to 17 terms by 2^-24 of the greatest, and its sum by
        // 2^-23; there are columns / 8 steps. Fused sums round each of the columns by 2^-24.
        const auto steps = static_cast<double>((c.columns + 7) / 8);
        tolerance.push_back(steps * (17 + 2) * kUnit * magnitude);
      }
    }
    const Packed packed(w);
    for (const TensorCoreSums sums :
         {TensorCoreSums::kAmpere, TensorCoreSums::kHopper, TensorCoreSums::kFused}) {
      const Tensor first = product(x, packed, {.seed = 0, .sums = sums}, c.x_stride);
      check_close(first.as<float>(), want, tolerance);
      for (const std::uint64_t seed : {1, 2}) {
        CHECK(same_bits(product(x, packed, {.seed = seed, .sums = sums}, c.x_stride), first));
      }
    }
  }
}

TEST_CASE("small integers have exact products, so every element is in its place") {
  constexpr std::int64_t kFeatures = 21;
  constexpr std::int64_t kColumns = 1059;
  Tensor w(DType::kF32, {kFeatures, kColumns});
  Tensor x(DType::kF32, {11, kColumns});
  for (std::int64_t i = 0; i < w.num_elements(); ++i)
    w.as<float>()[i] = static_cast<float>(i * 7 % 11) - 5;
  for (std::int64_t i = 0; i < x.num_elements(); ++i)
    x.as<float>()[i] = static_cast<float>(i * 5 % 13) - 6;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Tensor got = product(x, Packed(converted(w, dtype)), {.seed = 3});
    int wrong = 0;
    for (std::int64_t m = 0; m < 11; ++m) {
      for (std::int64_t n = 0; n < kFeatures; ++n) {
        float want = 0;
        for (std::int64_t k = 0; k < kColumns; ++k) {
          want += x.as<float>()[m * kColumns + k] * w.as<float>()[n * kColumns + k];
        }
        wrong += got.as<float>()[m * kFeatures + n] != want;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a row has the same bits alone and beside any number of others") {
  const Tensor w = random_of(DType::kBF16, {20, 1300}, 3);
  const Tensor x = random_of(DType::kBF16, {16, 1300}, 4);
  const Packed packed(w);
  for (const TensorCoreSums sums : {TensorCoreSums::kAmpere, TensorCoreSums::kHopper}) {
    const Tensor all = product(x, packed, {.sums = sums});
    for (const std::int64_t rows : {1, 2, 7, 8, 9, 15}) {
      Tensor some(DType::kBF16, {rows, 1300});
      std::memcpy(some.view().raw(), x.view().raw(), some.size_bytes());
      const Tensor got = product(some, packed, {.seed = 5, .sums = sums});
      CHECK(std::memcmp(got.as<float>(), all.as<float>(), got.size_bytes()) == 0);
    }
  }
}

TEST_CASE("weights are read once, and nothing of them twice over") {
  const Packed packed(random_of(DType::kBF16, {32, 2048}, 5));
  const DeviceTensor x(random_of(DType::kBF16, {8, 2048}, 6));
  const DeviceTensor y(DType::kF32, {8, 32});
  const auto report = run_emulated(
      0, [&](Stream& stream) { multiply_few_rows(stream, x.view(), packed.weight, y.view()); });
  std::int64_t copied_sectors = 0;
  for (const auto& cost : report.costs) {
    using caption::cuda_emulator::AccessKind;
    // x is read in pairs, 16 bytes of each row at a time: half a sector, whose other half the next
    // load takes from L1.
    const bool is_x = cost.kind == AccessKind::kLoadGlobal && cost.size_bytes == 4;
    if (!is_x) CHECK(cost.units == cost.least_units);
    if (cost.kind == AccessKind::kLoadGlobal && cost.size_bytes == 16) copied_sectors += cost.units;
  }
  CHECK(copied_sectors * 32 == 32 * 2048 * 2);
}

TEST_CASE("operands that do not agree are refused") {
  const Packed packed(random_of(DType::kBF16, {16, 16}, 7));
  const DeviceTensor x(random_of(DType::kBF16, {17, 16}, 8));
  const DeviceTensor y(DType::kF32, {17, 16});
  caption::ThreadPool pool(1);
  Stream stream(caption::Context{.device = caption::Device::kCuda}, pool);
  CHECK_THROWS_AS(multiply_few_rows(stream, x.view(), packed.weight, y.view()), caption::Error);
  const DeviceTensor narrow(DType::kF32, {3, 15});
  CHECK_THROWS_AS(multiply_few_rows(stream, x.view().rows(0, 3), packed.weight, narrow.view()),
                  caption::Error);
  CHECK_THROWS_AS(pack_w16(stream, narrow.view(), nullptr), caption::Error);
}

TEST_SUITE_END();
