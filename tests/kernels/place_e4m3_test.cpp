// Numbers of e4m3 that are held as bf16: in every tier the bits of to_bf16(number * scale), in f32.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/mirror.h"
#include "base/error.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/tier.h"
#include "kernels/weight.h"
#include "tensor/e4m3.h"
#include "tests/kernels/testing.h"

namespace caption::kernels {
namespace {

using namespace caption::testing;

std::uint16_t widened_bits(std::uint8_t code, float scale) {
  return to_bf16(from_e4m3(code) * scale).bits;
}

// A matrix of numbers of e4m3, of which `nan` may be the place of a NaN.
struct Numbers {
  Numbers(std::int64_t num_rows, std::int64_t num_columns, std::int64_t columns_of_group)
      : rows(num_rows),
        columns(num_columns),
        group_columns(columns_of_group),
        groups((columns + group_columns - 1) / group_columns) {
    std::mt19937 random(static_cast<unsigned>(rows * 1000 + columns));
    codes.resize(static_cast<std::size_t>(rows * columns));
    for (std::uint8_t& code : codes) {
      do {
        code = static_cast<std::uint8_t>(random() & 255u);
      } while (is_nan_e4m3(code));
    }
    scales.resize(static_cast<std::size_t>(rows * groups));
    for (float& scale : scales) scale = static_cast<float>(random() % 1000u + 1) * 0x1p-17F;
    // Some rows share their scales, as those of a block do.
    constexpr std::int64_t kRowsOfBlock = 5;
    for (std::int64_t i = groups; i < rows * groups; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (i / groups % kRowsOfBlock != 0)
        scales[at] = scales[at - static_cast<std::size_t>(groups)];
    }
  }

  QuantisedMatrix describe(std::int64_t first, std::int64_t count) const {
    QuantisedMatrix matrix;
    matrix.num_columns = columns;
    matrix.group_columns = group_columns;
    matrix.has_e4m3_codes = true;
    matrix.scales = Tensor(DType::kF32, {count, groups});
    std::copy_n(scales.begin() + first * groups, count * groups, matrix.scales.as<float>());
    return matrix;
  }
  QuantisedMatrix read(std::int64_t first, std::int64_t count) const {
    const auto begin = codes.begin() + first * columns;
    if (std::any_of(begin, begin + count * columns, is_nan_e4m3)) {
      throw Error(ErrorCode::kBadModel, "a NaN from row " + std::to_string(first) + " on");
    }
    QuantisedMatrix matrix = describe(first, count);
    matrix.codes = Tensor(DType::kI8, {count, columns});
    std::copy_n(begin, count * columns, static_cast<std::uint8_t*>(matrix.codes.view().raw()));
    return matrix;
  }
  QuantisedMatrix borrow(std::int64_t first, std::int64_t count) const {
    QuantisedMatrix matrix = describe(first, count);
    matrix.file_codes = {.is_4_bit = false, .num_rows = count};
    for (std::int64_t n = first; n < first + count; ++n) {
      matrix.file_codes.rows.push_back(codes.data() + n * columns);
    }
    return matrix;
  }
  QuantisedRows borrowed() const {
    return {[this](std::int64_t first, std::int64_t count) { return read(first, count); },
            [this](std::int64_t first, std::int64_t count) { return borrow(first, count); }};
  }
  Tensor widened() const {
    Tensor numbers(DType::kBF16, {rows, columns});
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const std::int64_t group = i / columns * groups + i % columns / group_columns;
      numbers.as<BF16>()[i].bits =
          widened_bits(codes[static_cast<std::size_t>(i)], scales[static_cast<std::size_t>(group)]);
    }
    return numbers;
  }

  std::int64_t rows, columns, group_columns, groups;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
};

// Rows, columns, and columns of a group: around the 32 rows of a panel, the 16 numbers of a
// register and the columns that are widened at a time.
constexpr std::int64_t kShapes[][3] = {{1, 1, 1},     {31, 7, 7},       {32, 16, 16},
                                       {33, 127, 3},  {70, 512, 128},   {97, 513, 512},
                                       {64, 1100, 9}, {100, 1057, 256}, {5, 2048, 2048}};

std::int64_t count_unequal(const Weight& found, const Tensor& expected) {
  const auto& packed = cpu::PackedWeight::of(found);
  std::vector<float> row(static_cast<std::size_t>(packed.num_columns()));
  std::int64_t unequal = 0;
  for (std::int64_t n = 0; n < packed.num_features(); ++n) {
    packed.unpack_row(n, row.data());
    for (std::int64_t k = 0; k < packed.num_columns(); ++k) {
      const BF16 wanted = expected.as<BF16>()[n * packed.num_columns() + k];
      unequal += to_bf16(row[static_cast<std::size_t>(k)]).bits == wanted.bits ? 0 : 1;
    }
  }
  return unequal;
}

TEST_SUITE_BEGIN("kernels/place_e4m3");

TEST_CASE("numbers of e4m3 are scaled and rounded to the same bits in every tier") {
  constexpr float kLargest = std::numeric_limits<float>::max() / kLargestE4M3;
  constexpr float kScales[] = {
      0,      1,        -1,        0.0123F,   3,
      256,    0x1p-9F,  0x1p-126F, 0x1p-140F, std::numeric_limits<float>::denorm_min(),
      1e-38F, kLargest, -kLargest};
  std::vector<std::uint8_t> codes;
  for (int code = 0; code < 256; ++code) {
    if (!is_nan_e4m3(static_cast<std::uint8_t>(code))) {
      codes.push_back(static_cast<std::uint8_t>(code));
    }
  }
  for (const CpuTier kind : TestedTiers()) {
    const cpu::Tier& tier = cpu::select_tier(kind);
    CAPTURE(std::string(cpu_tier_name(kind)));
    for (const float scale : kScales) {
      CAPTURE(scale);
      for (std::size_t first = 0; first < 40; ++first) {
        const std::size_t n = codes.size() - first;
        std::vector<std::uint16_t> found(n + 1, 0xA5A5);
        CHECK(tier.widen_e4m3({.codes = codes.data() + first,
                               .scale = scale,
                               .to = found.data(),
                               .n = static_cast<std::int64_t>(n)}));
        std::int64_t unequal = 0;
        for (std::size_t i = 0; i < n; ++i) {
          unequal += found[i] == widened_bits(codes[first + i], scale) ? 0 : 1;
        }
        CHECK(unequal == 0);
        CHECK(found[n] == 0xA5A5);
      }
    }
  }
}

TEST_CASE("rows of e4m3 that lie apart are scaled together") {
  constexpr std::int64_t kRows = 7;
  constexpr std::int64_t kFurther = 3;  // numbers between rows
  std::mt19937 random(11);
  for (const CpuTier kind : TestedTiers()) {
    const cpu::Tier& tier = cpu::select_tier(kind);
    CAPTURE(std::string(cpu_tier_name(kind)));
    for (std::int64_t n = 1; n < 200; ++n) {
      CAPTURE(n);
      const std::int64_t stride = n + kFurther;
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(kRows * stride - kFurther));
      for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(random() % 127u);
      for (std::size_t i = 0; i < codes.size(); i += 2) codes[i] |= 0x80u;
      std::vector<std::uint16_t> found(static_cast<std::size_t>(kRows * (stride + 1)), 0xA5A5);
      const float scale = n % 2 == 0 ? 0.0371F : -19.3F;
      const cpu::E4M3Args args{.codes = codes.data(),
                               .scale = scale,
                               .to = found.data(),
                               .n = n,
                               .num_rows = kRows,
                               .code_stride = stride,
                               .to_stride = stride + 1};
      CHECK(tier.widen_e4m3(args));
      std::int64_t unequal = 0;
      for (std::int64_t i = 0; i < kRows * (stride + 1); ++i) {
        const std::int64_t row = i / (stride + 1);
        const std::int64_t k = i % (stride + 1);
        const std::uint16_t wanted =
            k < n ? widened_bits(codes[static_cast<std::size_t>(row * stride + k)], scale) : 0xA5A5;
        unequal += found[static_cast<std::size_t>(i)] == wanted ? 0 : 1;
      }
      CHECK(unequal == 0);
      codes[static_cast<std::size_t>((kRows - 1) * stride + n - 1)] = 0xFF;
      CHECK_FALSE(tier.widen_e4m3(args));
    }
  }
}

TEST_CASE("a NaN is found wherever it is") {
  for (const CpuTier kind : TestedTiers()) {
    const cpu::Tier& tier = cpu::select_tier(kind);
    CAPTURE(std::string(cpu_tier_name(kind)));
    for (std::size_t n = 1; n < 40; ++n) {
      for (std::size_t at = 0; at < n; ++at) {
        std::vector<std::uint8_t> codes(n, 0x7E);
        codes[at] = at % 2 == 0 ? 0x7F : 0xFF;
        std::vector<std::uint16_t> to(n);
        CHECK_FALSE(tier.widen_e4m3({.codes = codes.data(),
                                     .scale = 1,
                                     .to = to.data(),
                                     .n = static_cast<std::int64_t>(n)}));
      }
    }
  }
}

TEST_CASE("a matrix of e4m3 is placed as the matrix of its products is") {
  for_each_stream([](Stream& stream) {
    for (const auto& [rows, columns, group_columns] : kShapes) {
      CAPTURE(rows);
      CAPTURE(columns);
      const Numbers numbers(rows, columns, group_columns);
      const Tensor expected = numbers.widened();
      const Weight plain = place_bf16(stream, expected.view());
      const Weight borrowed = place_e4m3(stream, rows, numbers.borrowed());
      const Weight read = place_e4m3(stream, rows, [&](std::int64_t first, std::int64_t count) {
        return numbers.read(first, count);
      });
      CHECK(count_unequal(borrowed, expected) == 0);
      CHECK(count_unequal(read, expected) == 0);
      CHECK(borrowed.form().describe() == plain.form().describe());
      CHECK(borrowed.size_bytes() == plain.size_bytes());
      CHECK_FALSE(borrowed.is_borrowed());
      if (cpu::PackedWeight::of(plain).layout() != cpu::PackedWeight::Layout::kPanels) continue;
      // With the zeros of missing features and columns.
      const ConstView found = cpu::PackedWeight::of(borrowed).panels();
      const ConstView wanted = cpu::PackedWeight::of(plain).panels();
      REQUIRE(found.shape() == wanted.shape());
      CHECK(std::equal(found.as<BF16>(), found.as<BF16>() + found.num_elements(), wanted.as<BF16>(),
                       [](BF16 a, BF16 b) { return a.bits == b.bits; }));
    }
  });
}

TEST_CASE("a matrix of e4m3 on the mirror has the same numbers") {
  for (const CpuTier tier : TestedTiers()) {
    ThreadPool pool(2);
    Stream stream(Context{.device = Device::kMirror, .cpu_tier = tier}, pool);
    const Numbers numbers(33, 127, 5);
    const Weight weight = place_e4m3(stream, 33, numbers.borrowed());
    CHECK(weight.device() == Device::kMirror);
    const MirrorAccess access;
    CHECK(count_unequal(weight, numbers.widened()) == 0);
  }
}

TEST_CASE("a matrix of e4m3 with a NaN is refused as reading refuses it") {
  for_each_stream([](Stream& stream) {
    Numbers numbers(100, 70, 70);
    numbers.codes[67 * 70 + 69] = 0xFF;
    CHECK_THROWS_WITH_AS(place_e4m3(stream, 100, numbers.borrowed()), "a NaN from row 64 on",
                         Error);
  });
}

TEST_CASE("codes that are not e4m3 are refused") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Numbers numbers(2, 4, 4);
  const auto integers = [&](std::int64_t first, std::int64_t count) {
    QuantisedMatrix matrix = numbers.read(first, count);
    matrix.has_e4m3_codes = false;
    return matrix;
  };
  CHECK_THROWS_WITH_AS(place_e4m3(stream, 2, integers), doctest::Contains("codes are not e4m3"),
                       Error);
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption::kernels
