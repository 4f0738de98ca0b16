#include "kernels/linear.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda/dense_layer.h"
#include "tests/cuda/dense_testing.h"

using caption::DType;
using caption::Stream;
using caption::Tensor;
using caption::cuda_emulator::multiply_add;
using caption::cuda_emulator::TensorCoreSums;
using caption::kernels::cuda::Layout;
using namespace caption::testing;

namespace {

// No size is a multiple of a tile's 16, of a group's 8 rows, of a block's rows or features or of a
// slice's 1,024 columns, but in the first case; 1,030 rows are more than a group of blocks of the
// tile GEMM; 5,003 columns give every warp of the kernel for few rows a slice and one warp two. A
// pair of elements is aligned in some, and not in others.
struct Case {
  std::int64_t rows, features, columns;
  DType weight, x;
  std::int64_t x_stride = 0;
};
constexpr Case kTilesCases[] = {{8, 32, 1024, DType::kBF16, DType::kBF16},
                                {1, 1, 1, DType::kF16, DType::kF32},
                                {3, 37, 41, DType::kBF16, DType::kBF16, 42},
                                {13, 19, 1102, DType::kF16, DType::kF16},
                                {16, 18, 2085, DType::kBF16, DType::kF32, 2086},
                                {5, 7, 5003, DType::kBF16, DType::kBF16},
                                {17, 35, 1054, DType::kF16, DType::kF32},
                                {35, 67, 2060, DType::kBF16, DType::kBF16, 2064},
                                {70, 21, 47, DType::kBF16, DType::kF16},
                                {131, 150, 75, DType::kF16, DType::kF16},
                                {6, 35, 1090, DType::kF16, DType::kF16},
                                {4, 19, 77, DType::kF16, DType::kBF16, 79},
                                {11, 17, 1043, DType::kF16, DType::kF32, 1045},
                                {9, 34, 1051, DType::kBF16, DType::kF16, 1053},
                                {33, 35, 1064, DType::kBF16, DType::kBF16, 1072},
                                {129, 131, 72, DType::kF16, DType::kF16},
                                {1030, 130, 17, DType::kBF16, DType::kF32}};
constexpr Case kRowsCases[] = {{1, 1, 1, DType::kF32, DType::kF32},
                               {3, 37, 41, DType::kBF16, DType::kBF16, 42},
                               {8, 67, 130, DType::kF16, DType::kF32},
                               {67, 65, 33, DType::kF32, DType::kF16, 35}};

// The element [m, n] of x * w^T in the order that kernels/cuda/tile_layout.h states. Only one row
// and one column of the tensor core's matrices are used: sums of others are apart.
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

Tensor integers(const caption::Shape& shape, int factor, int modulus) {
  Tensor tensor(DType::kF32, shape);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.as<float>()[i] =
        static_cast<float>(i * factor % modulus) - static_cast<float>(modulus / 2);
  }
  return tensor;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/linear");

TEST_CASE("by tiles, sums are made in slices of 1,024 columns, which are added in their order") {
  for (const std::int64_t columns : {1024, 1030, 5003}) {
    for (const std::int64_t rows : {9, 20}) {
      CAPTURE(columns);
      CAPTURE(rows);
      const Tensor w = random_of(DType::kBF16, {17, columns}, 9);
      const Tensor x = random_of(DType::kBF16, {rows, columns}, 10);
      const DeviceWeight weight(w, Layout::kTiles);
      for (const TensorCoreSums sums : kArithmetics) {
        const Tensor got = product(x, weight, {.seed = 4, .sums = sums});
        int different = 0;
        for (const std::int64_t m : {std::int64_t{0}, std::int64_t{5}, rows - 1}) {
          for (const std::int64_t n : {0, 11, 16}) {
            different += got.as<float>()[m * 17 + n] != sum_in_order(x, w, m, n, sums);
          }
        }
        CHECK(different == 0);
      }
    }
  }
}

TEST_CASE("products by tiles agree with a double-precision loop in every arithmetic and order") {
  for (const Case& c : kTilesCases) {
    CAPTURE(c.rows);
    CAPTURE(c.columns);
    const Tensor w = random_of(c.weight, {c.features, c.columns}, 1);
    const Tensor x = random_of(c.x, {c.rows, c.columns}, 2);
    const DeviceWeight weight(w, Layout::kTiles);
    const ExpectedSums want = expected_sums(x, w, Layout::kTiles);
    for (const TensorCoreSums sums : kArithmetics) {
      const Tensor first = product(x, weight, {.seed = 0, .sums = sums}, c.x_stride);
      check_close(first.as<float>(), want.sum, want.tolerance);
      for (const std::uint64_t seed : {1, 2}) {
        CHECK(same_bits(product(x, weight, {.seed = seed, .sums = sums}, c.x_stride), first));
      }
    }
  }
}

TEST_CASE("weights that come through registers have the bits of those that come through a ring") {
  // Numbers of f16, whose weights come through registers, and of bf16.
  const auto of_both = [](Tensor x) {
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      x.as<float>()[i] = std::nearbyint(x.as<float>()[i] * 127) / 128;
    }
    return x;
  };
  // Steps that end within a chunk of four; warps with no slice, with one and with two.
  for (const std::int64_t columns : {28, 1100, 5004}) {
    const Tensor w = of_both(random_f32({19, columns}, 9));
    const DeviceWeight through_registers(converted(w, DType::kF16), Layout::kTiles);
    const DeviceWeight through_ring(converted(w, DType::kBF16), Layout::kTiles);
    for (const std::int64_t rows : {1, 11}) {
      CAPTURE(columns);
      CAPTURE(rows);
      const Tensor x = of_both(random_f32({rows, columns}, 10));
      CHECK(same_bits(product(x, through_registers, {.seed = 3}, 0, 75),
                      product(x, through_ring, {}, 0, 80)));
    }
  }
}

TEST_CASE("products by rows agree with a double-precision loop in every order") {
  for (const Case& c : kRowsCases) {
    CAPTURE(c.rows);
    CAPTURE(c.columns);
    const Tensor w = random_of(c.weight, {c.features, c.columns}, 1);
    const Tensor x = random_of(c.x, {c.rows, c.columns}, 2);
    const DeviceWeight weight(w, Layout::kRows);
    const ExpectedSums want = expected_sums(x, w, Layout::kRows);
    const Tensor first = product(x, weight, {.seed = 0}, c.x_stride);
    check_close(first.as<float>(), want.sum, want.tolerance);
    for (const std::uint64_t seed : {1, 2}) {
      CHECK(same_bits(product(x, weight, {.seed = seed}, c.x_stride), first));
    }
  }
}

TEST_CASE("small integers have exact products, so every element is in its place") {
  constexpr std::int64_t kFeatures = 69;
  constexpr std::int64_t kColumns = 1059;
  const Tensor w = integers({kFeatures, kColumns}, 7, 11);
  const Tensor x = integers({75, kColumns}, 5, 13);
  std::vector<float> want;
  for (std::int64_t m = 0; m < 75; ++m) {
    for (std::int64_t n = 0; n < kFeatures; ++n) {
      float sum = 0;
      for (std::int64_t k = 0; k < kColumns; ++k) {
        sum += x.as<float>()[m * kColumns + k] * w.as<float>()[n * kColumns + k];
      }
      want.push_back(sum);
    }
  }
  for (const std::int64_t rows : {11, 41, 75}) {
    const auto count = static_cast<std::size_t>(rows * kFeatures);
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      const Layout layout = dtype == DType::kF32 ? Layout::kRows : Layout::kTiles;
      const Tensor got =
          product(first_rows(x, rows), DeviceWeight(converted(w, dtype), layout), {.seed = 3});
      CHECK(std::equal(want.begin(), want.begin() + static_cast<std::ptrdiff_t>(count),
                       got.as<float>()));
    }
  }
}

TEST_CASE("a row has the same bits alone and beside any number of others") {
  constexpr std::int64_t kRows = 70;
  for (const Layout layout : {Layout::kTiles, Layout::kRows}) {
    const std::int64_t columns = layout == Layout::kTiles ? 1300 : 130;
    const DeviceWeight weight(random_of(DType::kBF16, {20, columns}, 3), layout);
    const Tensor x = random_f32({kRows, columns}, 4);
    for (const TensorCoreSums sums : {TensorCoreSums::kAmpere, TensorCoreSums::kHopper}) {
      const Tensor all = product(x, weight, {.sums = sums});
      for (std::int64_t rows = 1; rows < kRows; rows += rows < 18 ? 1 : 7) {
        CAPTURE(rows);
        const Tensor got = product(first_rows(x, rows), weight, {.seed = 5, .sums = sums});
        CHECK(std::memcmp(got.as<float>(), all.as<float>(), got.size_bytes()) == 0);
      }
    }
  }
}

TEST_CASE("slices summed by one block have the bits of slices with blocks of their own") {
  using caption::kernels::LinearPart;
  using caption::kernels::cuda::multiply_many_rows;
  using caption::kernels::cuda::SliceBlocks;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const DeviceWeight weight(random_of(dtype, {21, 2100}, 11), Layout::kTiles);
    const DeviceWeight up(random_of(dtype, {21, 2100}, 12), Layout::kTiles);
    for (const std::int64_t rows : {19, 67}) {
      for (const bool is_swiglu : {false, true}) {
        CAPTURE(rows);
        CAPTURE(is_swiglu);
        const DeviceTensor x(random_f32({rows, 2100}, 13));
        const DeviceTensor want(DType::kF32, {rows, 21});
        run_with({.seed = 6}, [&](Stream& stream) {
          if (is_swiglu) {
            caption::kernels::linear_swiglu(stream, x.view(), {weight.get()}, {up.get()},
                                            want.view());
          } else {
            linear(stream, x.view(), weight.get(), caption::ConstView{}, want.view());
          }
        });
        for (const SliceBlocks blocks : {SliceBlocks::kOwn, SliceBlocks::kNone}) {
          const DeviceTensor y(DType::kF32, {rows, 21});
          const LinearPart parts[] = {{weight.get(), {}, y.view()}, {up.get(), {}, y.view()}};
          run_with({.seed = 7}, [&](Stream& stream) {
            multiply_many_rows(stream,
                               {.x = x.view(),
                                .parts = std::span(parts).first(is_swiglu ? 2 : 1),
                                .is_swiglu = is_swiglu},
                               blocks);
          });
          CHECK(same_bits(y.to_host(), want.to_host()));
        }
      }
    }
  }
}

TEST_CASE("columns of one slice have no blocks for another") {
  using caption::kernels::cuda::SliceBlocks;
  for (const std::int64_t columns : {1024, 1025}) {
    const DeviceWeight weight(random_of(DType::kBF16, {21, columns}, 11), Layout::kTiles);
    const DeviceTensor x(random_of(DType::kBF16, {67, columns}, 12));
    const DeviceTensor y(DType::kF32, {67, 21});
    const caption::kernels::LinearPart parts[] = {{weight.get(), {}, y.view()}};
    const auto blocks_of = [&](SliceBlocks slices) {
      return run_emulated(0,
                          [&](Stream& stream) {
                            caption::kernels::cuda::multiply_many_rows(
                                stream, {.x = x.view(), .parts = parts}, slices);
                          })
          .blocks;
    };
    const bool has_one = blocks_of(SliceBlocks::kOwn) == blocks_of(SliceBlocks::kNone);
    CHECK(has_one == (columns == 1024));
  }
}

TEST_CASE("with more rows, neither weights nor x are moved twice over, nor banks met twice") {
  const DeviceWeight weight(random_of(DType::kBF16, {128, 128}, 14), Layout::kTiles);
  for (const std::int64_t rows : {64, 128}) {
    const DeviceTensor x(random_of(DType::kBF16, {rows, 128}, 15));
    const DeviceTensor y(DType::kF32, {rows, 128});
    check_wastes_nothing(
        [&](Stream& stream) {
          linear(stream, x.view(), weight.get(), caption::ConstView{}, y.view());
        },
        4);
  }
}

TEST_CASE("few rows of the weights' type have the bits of the same numbers in f32") {
  // Columns of whole chunks, of parts of chunks and slices, and that do not allow 16 bytes at once.
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const std::int64_t columns : {64, 1096, 4168, 5003}) {
      CAPTURE(columns);
      const DeviceWeight weight(random_of(dtype, {18, columns}, 21), Layout::kTiles);
      for (const std::int64_t rows : {1, 7, 8, 9, 16}) {
        CAPTURE(rows);
        const Tensor x = random_of(dtype, {rows, columns}, 22);
        const Tensor want = product(caption::testing::converted(x, DType::kF32), weight, {});
        for (const int capability : {0, 75}) {
          if (capability == 75 && dtype == DType::kBF16) continue;
          const Tensor got = product(x, weight, {.seed = 3}, columns + 8, capability);
          CHECK(same_bits(got, want));
        }
      }
    }
  }
}

TEST_CASE("few rows of the weights' type are read once per block, and nothing of them twice over") {
  const DeviceWeight weight(random_of(DType::kBF16, {32, 2048}, 5), Layout::kTiles);
  const DeviceTensor x(random_of(DType::kBF16, {16, 2048}, 6));
  const DeviceTensor y(DType::kF32, {16, 32});
  const auto report = run_counted([&](Stream& stream) {
    linear(stream, x.view(), weight.get(), caption::ConstView{}, y.view());
  });
  std::int64_t sectors = 0;
  for (const auto& cost : report.costs) {
    using caption::cuda_emulator::AccessKind;
    CHECK(cost.units == cost.least_units);
    if (cost.kind == AccessKind::kLoadGlobal && cost.size_bytes == 16) sectors += cost.units;
  }
  CHECK(sectors * 32 == 2 * 2048 * (32 + 2 * 16));  // weights once, x by each of two blocks
}

TEST_CASE("weights are read once, and nothing of them twice over") {
  const DeviceWeight weight(random_of(DType::kBF16, {32, 2048}, 5), Layout::kTiles);
  // Not of the weights' type, so that no load of x has 16 bytes.
  const DeviceTensor x(random_of(DType::kF16, {8, 2048}, 6));
  const DeviceTensor y(DType::kF32, {8, 32});
  const auto report = run_counted([&](Stream& stream) {
    linear(stream, x.view(), weight.get(), caption::ConstView{}, y.view());
  });
  std::int64_t copied_sectors = 0;
  for (const auto& cost : report.costs) {
    using caption::cuda_emulator::AccessKind;
    CHECK(cost.units == cost.least_units);
    if (cost.kind == AccessKind::kLoadGlobal && cost.size_bytes == 16) copied_sectors += cost.units;
  }
  CHECK(copied_sectors * 32 == 32 * 2048 * 2);
}

TEST_CASE("few rows multiply each tile once for every eight rows, and none beyond the columns") {
  constexpr std::int64_t kFeatures = 19;  // two tiles
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    // Tiles that are whole chunks of four, and that end a chunk within it.
    for (const std::int64_t columns : {28, 128, 1100}) {
      CAPTURE(columns);
      const DeviceWeight weight(random_of(dtype, {kFeatures, columns}, 5), Layout::kTiles);
      for (const std::int64_t rows : {5, 11}) {
        CAPTURE(rows);
        const DeviceTensor x(random_f32({rows, columns}, 6));
        const DeviceTensor y(DType::kF32, {rows, kFeatures});
        const auto report = run_counted([&](Stream& stream) {
          linear(stream, x.view(), weight.get(), caption::ConstView{}, y.view());
        });
        CHECK(report.matrix_products == 2 * ((columns + 15) / 16) * ((rows + 7) / 8));
      }
    }
  }
}

TEST_CASE("no rows are no launch") {
  const DeviceWeight weight(random_of(DType::kBF16, {16, 16}, 7), Layout::kTiles);
  const DeviceTensor x(DType::kF32, {0, 16});
  const DeviceTensor y(DType::kF32, {0, 16});
  const caption::cuda_emulator::Emulation emulation;
  caption::ThreadPool pool(1);
  Stream stream(caption::Context{.device = caption::Device::kCuda}, pool);
  linear(stream, x.view(), weight.get(), caption::ConstView{}, y.view());
  stream.synchronize();
  CHECK(emulation.report().launches == 0);
}

TEST_SUITE_END();
