// Numbers of f32 and f16 that are held as bf16: in every tier the bits of to_bf16(), subnormals and
// NaN included.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/tier.h"
#include "kernels/weight.h"
#include "tests/kernels/testing.h"

namespace caption::kernels {
namespace {

using namespace caption::testing;

// The bits of special numbers of f32, and random ones.
std::vector<float> some_floats() {
  std::vector<std::uint32_t> bits = {0x00000000, 0x80000000, 0x3F800000, 0x3F808000, 0x3F818000,
                                     0x3F808001, 0x3F807FFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000,
                                     0x7F800001, 0xFFFFFFFF, 0x7FC00000, 0x7FBFFFFF, 0xFF7F8000,
                                     0x00800000, 0x00000001, 0x80008000, 0x00018000, 0x007FFFFF};
  std::mt19937 random(3);
  while (bits.size() < 4001) bits.push_back(static_cast<std::uint32_t>(random()));
  std::vector<float> numbers;
  for (const std::uint32_t number : bits) numbers.push_back(std::bit_cast<float>(number));
  return numbers;
}

// Every number of f16.
std::vector<F16> all_halves() {
  std::vector<F16> numbers;
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    numbers.push_back({static_cast<std::uint16_t>(bits)});
  }
  return numbers;
}

// Rounds runs of the numbers with every tier: all from each of the first 40 on, so that each of
// them is once in a rest, and single ones.
template <class Number>
void check_rounding(const std::vector<Number>& numbers, cpu::Element element) {
  for (const CpuTier kind : TestedTiers()) {
    CAPTURE(std::string(cpu_tier_name(kind)));
    for (std::size_t first = 0; first < 40; ++first) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{15}, numbers.size() - first}) {
        std::vector<std::uint16_t> found(count + 1, 0xA5A5);
        cpu::select_tier(kind).round_numbers(numbers.data() + first, element, found.data(),
                                             static_cast<std::int64_t>(count));
        std::int64_t unequal = 0;
        for (std::size_t i = 0; i < count; ++i) {
          unequal += found[i] == to_bf16(to_float(numbers[first + i])).bits ? 0 : 1;
        }
        CHECK(unequal == 0);
        CHECK(found[count] == 0xA5A5);
      }
    }
  }
}

TEST_SUITE_BEGIN("kernels/round_numbers");

TEST_CASE("numbers of f32 are rounded to the same bits in every tier") {
  check_rounding(some_floats(), cpu::Element::kF32);
}

TEST_CASE("numbers of f16 are rounded to the same bits in every tier") {
  check_rounding(all_halves(), cpu::Element::kF16);
}

// Rows and columns around the 32 rows of a panel and the 512 columns that are rounded at a time.
constexpr std::int64_t kShapes[][2] = {{1, 1},    {31, 7},   {32, 16},   {33, 127},
                                       {64, 512}, {97, 513}, {40, 1057}, {5, 2048}};

TEST_CASE("rows of f32 and f16 are placed as the rounded rows are") {
  for_each_stream([](Stream& stream) {
    for (const auto& [rows, columns] : kShapes) {
      CAPTURE(rows);
      CAPTURE(columns);
      for (const DType dtype : {DType::kF32, DType::kF16}) {
        const Tensor wide = random_of(dtype, {rows, columns + 3}, 7);
        const ConstView numbers = wide.view().columns(2, columns);
        Tensor rounded(DType::kBF16, {rows, columns});
        dispatch_float(dtype, [&](auto tag) {
          const auto* const from = numbers.as<decltype(tag)>();
          for (std::int64_t i = 0; i < rows * columns; ++i) {
            const std::int64_t at = i / columns * (columns + 3) + i % columns;
            rounded.as<BF16>()[i] = to_bf16(to_float(from[at]));
          }
        });
        const Weight found = place_bf16(stream, numbers);
        const Weight wanted = place_bf16(stream, rounded.view());
        CHECK(found.form().describe() == wanted.form().describe());
        const auto& packed = cpu::PackedWeight::of(found);
        const auto& expected = cpu::PackedWeight::of(wanted);
        REQUIRE(packed.layout() == expected.layout());
        const bool has_panels = packed.layout() == cpu::PackedWeight::Layout::kPanels;
        const ConstView a = has_panels ? packed.panels() : packed.rows();
        const ConstView b = has_panels ? expected.panels() : expected.rows();
        REQUIRE(a.shape() == b.shape());
        CHECK(std::equal(a.as<BF16>(), a.as<BF16>() + a.num_elements(), b.as<BF16>(),
                         [](BF16 x, BF16 y) { return x.bits == y.bits; }));
      }
    }
  });
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption::kernels
