// Tests Tier's functions that pack the rows of a panel against their definitions, one code at a
// time, in every tier.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/tier.h"
#include "tests/kernels/testing.h"

namespace caption::kernels::cpu {
namespace {

using caption::testing::TestedTiers;

constexpr std::uint8_t kUntouched = 0xA5;

// Where rows lie: each in memory of its own, or so many bytes apart.
constexpr std::int64_t kApart = 0;
// Packing reads rows that compete for lines of the first-level cache otherwise.
constexpr std::int64_t kCompeting = 4096;

// The rows of a panel of `row_bytes` bytes, the last `missing` of which are null. They begin at any
// byte of memory that ends with them, so that a sanitizer finds reads behind it.
struct Rows {
  Rows(std::int64_t row_bytes, std::int64_t missing, std::int64_t stride_bytes, unsigned seed) {
    std::mt19937 random(seed);
    const std::int64_t count = kPanelColumns - missing;
    const auto add = [&](std::int64_t size) {
      memory.emplace_back(static_cast<std::size_t>(size));
      for (std::uint8_t& byte : memory.back()) byte = static_cast<std::uint8_t>(random() & 255u);
      return memory.back().data();
    };
    const std::int64_t before = random() % 4;
    const std::uint8_t* const first =
        stride_bytes == kApart ? nullptr : add(before + (count - 1) * stride_bytes + row_bytes);
    for (std::int64_t n = 0; n < count; ++n) {
      at[static_cast<std::size_t>(n)] =
          before + (first == nullptr ? add(before + row_bytes) : first + n * stride_bytes);
    }
  }
  // Byte i of row n, or 0 where there is none.
  unsigned byte(std::int64_t n, std::int64_t i, std::int64_t row_bytes) const {
    const std::uint8_t* const row = at[static_cast<std::size_t>(n)];
    return row == nullptr || i >= row_bytes ? 0u : row[i];
  }
  // The 4-bit code of column k, or 0 where there is none.
  unsigned code(std::int64_t n, std::int64_t k, std::int64_t columns) const {
    if (k >= columns) return 0;
    return byte(n, k / 2, (columns + 1) / 2) >> (k % 2 * 4) & 15u;
  }

  std::vector<std::vector<std::uint8_t>> memory;
  std::array<const std::uint8_t*, kPanelColumns> at{};
};

using Pack = void (*)(const PanelRowsArgs& args);

// Compares what `pack` writes to `size` bytes with byte_at(position), and that it writes no more.
template <class ByteAt>
void check(Pack pack, const Rows& rows, PanelRowsArgs args, std::int64_t size,
           const ByteAt& byte_at) {
  std::vector<std::uint8_t> found(static_cast<std::size_t>(size) + 64, kUntouched);
  args.rows = rows.at.data();
  args.to = found.data();
  pack(args);
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    different += found[static_cast<std::size_t>(i)] == byte_at(i) ? 0 : 1;
  }
  CHECK(different == 0);
  CHECK(std::all_of(found.end() - 64, found.end(),
                    [](std::uint8_t byte) { return byte == kUntouched; }));
}

void check_words(const Tier& tier, std::int64_t row_bytes, std::int64_t missing,
                 std::int64_t stride_bytes = kApart) {
  CAPTURE(row_bytes);
  CAPTURE(missing);
  const auto seed = static_cast<unsigned>(row_bytes * 32 + missing);
  const Rows rows(row_bytes, missing, stride_bytes, seed);
  for (const std::int64_t word_bytes : {2, 4}) {
    CAPTURE(word_bytes);
    const std::int64_t words = (row_bytes + word_bytes - 1) / word_bytes;
    const std::array<std::uint8_t, 4> flips = {0x80, 0, 0xFF, 1};
    const bool is_flipped = word_bytes == 4;
    PanelRowsArgs args{.length = row_bytes};
    if (is_flipped) std::memcpy(&args.flipped, flips.data(), sizeof(args.flipped));
    check(word_bytes == 4 ? tier.pack_dwords : tier.pack_words, rows, args,
          words * word_bytes * kPanelColumns, [&](std::int64_t at) {
            const std::int64_t word = at / word_bytes / kPanelColumns;
            const std::int64_t n = at / word_bytes % kPanelColumns;
            const std::int64_t in_word = at % word_bytes;
            const unsigned flip = is_flipped ? flips[static_cast<std::size_t>(in_word)] : 0u;
            return rows.byte(n, word * word_bytes + in_word, row_bytes) ^ flip;
          });
  }
}

void check_nibbles(const Tier& tier, std::int64_t columns, std::int64_t missing,
                   std::int64_t stride_bytes = kApart) {
  CAPTURE(columns);
  CAPTURE(missing);
  const auto seed = static_cast<unsigned>(columns * 32 + missing);
  const Rows rows((columns + 1) / 2, missing, stride_bytes, seed);
  constexpr std::int64_t kHalf = kPanelColumns / 2;
  for (const std::int64_t together : {2, 4}) {
    CAPTURE(together);
    const std::int64_t size = (columns + together - 1) / together * together * kHalf;
    check(together == 2 ? tier.pack_nibbles : tier.pack_nibble_quads, rows, {.length = columns},
          size, [&](std::int64_t at) {
            const std::int64_t n = at / together % kHalf;
            const std::int64_t k = at / (together * kHalf) * together + at % together;
            return rows.code(n, k, columns) | rows.code(n + kHalf, k, columns) << 4u;
          });
  }
  if (columns % 2 != 0) return;
  check(tier.pack_nibbles, rows, {.length = columns, .has_odd_first = true}, columns * kHalf,
        [&](std::int64_t at) {
          const std::int64_t n = at / 2 % kHalf;
          const std::int64_t k = at / kPanelColumns * 2 + (at + 1) % 2;
          return rows.code(n, k, columns) | rows.code(n + kHalf, k, columns) << 4u;
        });
}

// Words of panels, whose rows of words lie farther apart than they are long.
struct Words {
  Words(std::int64_t columns, std::int64_t panels, std::mt19937& random)
      : num_columns(columns), num_panels(panels), order(static_cast<std::size_t>(columns)) {
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    words.resize(static_cast<std::size_t>(columns / 8 * stride() - kFurther));
    for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
  }
  std::int64_t stride() const { return num_panels * kPanelColumns + kFurther; }
  // The code of a row and of a column of the panels.
  unsigned code(std::int64_t row, std::int64_t k) const {
    const std::int64_t column = order[static_cast<std::size_t>(k)];
    const auto at = static_cast<std::size_t>(column / 8 * stride() + row);
    return words[at] >> (4 * (column % 8)) & 15u;
  }

  static constexpr std::int64_t kFurther = 5;
  std::int64_t num_columns, num_panels;
  std::vector<std::int32_t> order;
  std::vector<std::uint32_t> words;
};

void check_ordered_words(const Tier& tier, const Words& words, std::int64_t before) {
  CAPTURE(words.num_columns);
  CAPTURE(words.num_panels);
  constexpr std::int64_t kHalf = kPanelColumns / 2;
  const std::int64_t panel_bytes = words.num_columns * kHalf;
  const std::int64_t stride = panel_bytes + kPanelColumns;
  std::vector<std::uint8_t> columns(static_cast<std::size_t>(words.num_panels * panel_bytes));
  std::vector<std::uint8_t> found(static_cast<std::size_t>(before + words.num_panels * stride),
                                  kUntouched);
  tier.pack_ordered_words(
      {.words = {.words = reinterpret_cast<const std::uint8_t*>(words.words.data()),
                 .stride_bytes = 4 * words.stride(),
                 .num_columns = words.num_columns,
                 .num_panels = words.num_panels,
                 .to = found.data() + before,
                 .panel_bytes = stride},
       .order = words.order.data(),
       .columns = columns.data()});
  tier.finish_packing();
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < words.num_panels * stride; ++i) {
    const std::int64_t at = i % stride;
    const std::int64_t row = i / stride * kPanelColumns + at % kPanelColumns / 2;
    const std::int64_t k = at / kPanelColumns * 2 + at % 2;
    const unsigned expected =
        at >= panel_bytes ? kUntouched : words.code(row, k) | words.code(row + kHalf, k) << 4u;
    different += found[static_cast<std::size_t>(before + i)] == expected ? 0 : 1;
  }
  CHECK(different == 0);
}

TEST_SUITE("kernels/pack_rows") {
  TEST_CASE("words of columns are packed in any order, at any length and place") {
    std::mt19937 random(3);
    for (const CpuTier kind : TestedTiers()) {
      CAPTURE(static_cast<int>(kind));
      const Tier& tier = select_tier(kind);
      if (tier.pack_ordered_words == nullptr) {
        MESSAGE("this tier has no pack_ordered_words; it reads rows");
        continue;
      }
      for (std::int64_t columns = 8; columns <= 200; columns += 8) {
        for (const std::int64_t panels : {1, 2, 3, 5}) {
          check_ordered_words(tier, Words(columns, panels, random), 0);
          check_ordered_words(tier, Words(columns, panels, random), columns % 64 + 1);
        }
      }
      check_ordered_words(tier, Words(5000, 3, random), 0);
    }
  }

  TEST_CASE("the rows of a panel are packed side by side, at any length and place") {
    for (const CpuTier tier : TestedTiers()) {
      CAPTURE(static_cast<int>(tier));
      for (const std::int64_t missing : {0, 1, 15, 16, 17, 31}) {
        for (std::int64_t length = 1; length < 150; ++length) {
          check_words(select_tier(tier), length, missing);
        }
      }
      check_words(select_tier(tier), 4100, 0);
      for (const std::int64_t length : {127, 128, 150, 256, 301}) {
        check_words(select_tier(tier), length, 0, kCompeting);
        check_words(select_tier(tier), length, 3, kCompeting);
      }
    }
  }

  TEST_CASE("4-bit codes of two halves of a panel share bytes, at any length and place") {
    for (const CpuTier tier : TestedTiers()) {
      CAPTURE(static_cast<int>(tier));
      for (const std::int64_t missing : {0, 1, 15, 16, 17, 31}) {
        for (std::int64_t columns = 1; columns < 300; ++columns) {
          check_nibbles(select_tier(tier), columns, missing);
        }
      }
      check_nibbles(select_tier(tier), 4099, 0);
      for (const std::int64_t columns : {255, 256, 300, 512, 603}) {
        check_nibbles(select_tier(tier), columns, 0, kCompeting);
        check_nibbles(select_tier(tier), columns, 3, kCompeting);
      }
    }
  }
}

}  // namespace
}  // namespace caption::kernels::cpu
