// Tests Tier::pack_scales() against its definition, one number at a time, in every tier.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/tier.h"
#include "tensor/dtype.h"
#include "tests/kernels/testing.h"

namespace caption::kernels::cpu {
namespace {

using caption::testing::TestedTiers;

constexpr std::int64_t kGuard = 16;  // numbers behind a result that stay as they are
constexpr std::byte kUntouched{0xA5};
constexpr std::int64_t kNibbles[2][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {0, 4, 1, 5, 2, 6, 3, 7}};

// Scales [rows, groups], or [groups, rows], of a file that has more rows than a panel.
struct File {
  Element element;
  bool has_rows_together;
  std::int64_t num_groups;
  std::int64_t num_rows = 40;
  std::vector<std::byte> bytes = {};
  std::vector<std::uint32_t> zeros = {};

  std::size_t size() const { return element == Element::kF32 ? 4 : 2; }
  std::int64_t place(std::int64_t n, std::int64_t g) const {
    return has_rows_together ? g * num_rows + n : n * num_groups + g;
  }
  void set(std::int64_t n, std::int64_t g, float number) {
    std::byte* const to = bytes.data() + static_cast<std::size_t>(place(n, g)) * size();
    const std::uint16_t bits =
        element == Element::kBF16 ? to_bf16(number).bits : to_f16(number).bits;
    if (element == Element::kF32) {
      std::memcpy(to, &number, sizeof(number));
    } else {
      std::memcpy(to, &bits, sizeof(bits));
    }
  }
};

File random_file(Element element, bool has_rows_together, std::int64_t num_groups) {
  File file{.element = element, .has_rows_together = has_rows_together, .num_groups = num_groups};
  const auto count = static_cast<std::size_t>(file.num_rows * num_groups);
  file.bytes.resize(count * file.size());
  std::mt19937 random(static_cast<unsigned>(num_groups * 8 + static_cast<int>(element)));
  std::uniform_real_distribution<float> uniform(-2.0F, 2.0F);
  for (std::int64_t n = 0; n < file.num_rows; ++n) {
    for (std::int64_t g = 0; g < num_groups; ++g) file.set(n, g, uniform(random));
  }
  file.set(0, 0, 0x1p-24F);  // subnormal as f16
  for (std::int64_t i = 0; i < file.num_rows / 8 * num_groups; ++i)
    file.zeros.push_back(static_cast<std::uint32_t>(random()));
  return file;
}

struct Case {
  std::int64_t num_rows = kPanelColumns;
  bool has_zeros = false;
  bool has_even_rows_first = false;
};

// Packs the rows from the eighth of the file on; returns what the tier returns. Without scales that
// are refused, the result is compared with the file.
bool check_file(const Tier& tier, const File& file, const Case& of, float largest) {
  constexpr std::int64_t kFirst = 8;
  const std::int64_t count = file.num_groups * kPanelColumns;
  const std::size_t size = file.size();
  const auto bytes_of = [](std::int64_t numbers, std::size_t bytes) {
    return std::vector<std::byte>(static_cast<std::size_t>(numbers) * bytes, kUntouched);
  };
  std::vector<std::byte> scales = bytes_of(count + kGuard, size);
  std::vector<std::byte> offsets = bytes_of(count + kGuard, 1);
  std::vector<std::byte> want_scales = scales;
  std::vector<std::byte> want_offsets = offsets;
  const std::size_t first = static_cast<std::size_t>(file.place(kFirst, 0)) * size;
  const bool result = tier.pack_scales(
      {.numbers = file.bytes.data() + first,
       .element = file.element,
       .row_stride = file.has_rows_together ? 1 : file.num_groups,
       .group_stride = file.has_rows_together ? file.num_rows : 1,
       .num_rows = of.num_rows,
       .num_groups = file.num_groups,
       .largest = largest,
       .zeros = of.has_zeros ? file.zeros.data() + kFirst / 8 : nullptr,
       .zero_stride = file.num_rows / 8,
       .has_even_rows_first = of.has_even_rows_first,
       .middle = 7,
       .to = scales.data(),
       .offsets = of.has_zeros ? reinterpret_cast<std::int8_t*>(offsets.data()) : nullptr});
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t g = i / kPanelColumns;
    const std::int64_t n = i % kPanelColumns;
    const auto at = static_cast<std::size_t>(i);
    std::fill_n(want_scales.begin() + static_cast<std::ptrdiff_t>(at * size), size, std::byte{0});
    if (of.has_zeros) want_offsets[at] = std::byte{0};
    if (n >= of.num_rows) continue;
    const auto place = static_cast<std::size_t>(file.place(kFirst + n, g));
    std::memcpy(want_scales.data() + at * size, file.bytes.data() + place * size, size);
    const std::uint32_t word =
        file.zeros[static_cast<std::size_t>(g * (file.num_rows / 8) + (kFirst + n) / 8)];
    const std::int64_t nibble = kNibbles[of.has_even_rows_first ? 1 : 0][n % 8];
    const auto zero = static_cast<int>(word >> (4 * nibble) & 15u);
    if (of.has_zeros) want_offsets[at] = static_cast<std::byte>(7 - zero);
  }
  if (result) CHECK(scales == want_scales);
  if (result) CHECK(offsets == want_offsets);
  return result;
}

constexpr float kAny = std::numeric_limits<float>::max();

TEST_SUITE("kernels/pack_scales") {
  TEST_CASE("scales and zeros of a panel are those of the file, in every order and dtype") {
    for (const CpuTier tier : TestedTiers()) {
      CAPTURE(static_cast<int>(tier));
      for (const Element element : {Element::kF32, Element::kBF16, Element::kF16}) {
        for (const std::int64_t groups : {1, 2, 7, 8, 9, 16, 44}) {
          CAPTURE(groups);
          for (const std::int64_t rows : {1, 31, 32}) {
            const File by_row = random_file(element, false, groups);
            const File by_group = random_file(element, true, groups);
            CHECK(check_file(select_tier(tier), by_row, {.num_rows = rows}, kAny));
            CHECK(check_file(select_tier(tier), by_group, {.num_rows = rows}, kAny));
            for (const bool is_even_first : {false, true}) {
              const Case with_zeros{
                  .num_rows = rows, .has_zeros = true, .has_even_rows_first = is_even_first};
              CHECK(check_file(select_tier(tier), by_row, with_zeros, kAny));
              CHECK(check_file(select_tier(tier), by_group, with_zeros, kAny));
            }
          }
        }
      }
    }
  }

  TEST_CASE("a scale that is too large or no number is found wherever it stands") {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (const CpuTier tier : TestedTiers()) {
      CAPTURE(static_cast<int>(tier));
      for (const Element element : {Element::kF32, Element::kBF16, Element::kF16}) {
        for (const bool has_rows_together : {false, true}) {
          for (const std::int64_t groups : {3, 9}) {
            for (std::int64_t at = 0; at < groups * kPanelColumns; at += 5) {
              File file = random_file(element, has_rows_together, groups);
              const auto find = [&](float number, float largest) {
                file.set(8 + at % kPanelColumns, at / kPanelColumns, number);
                return !check_file(select_tier(tier), file, {}, largest);
              };
              CHECK(find(kNan, kAny));
              CHECK(find(-kInfinity, kAny));
              CHECK(find(-8.5F, 8.25F));
              CHECK(!find(-8.25F, 8.25F));
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace caption::kernels::cpu
