// Tests the order of panels against its definition, one word at a time.
#include "kernels/cpu/interleave.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

namespace caption::kernels::cpu {
namespace {

std::vector<std::byte> random_bytes(std::mt19937& random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 255u);
  return bytes;
}

// Word i of a row, the bytes behind its end being zeros.
template <class Word>
Word word_at(const std::byte* row, std::int64_t row_bytes, std::int64_t i) {
  Word word = 0;
  const std::int64_t first = i * static_cast<std::int64_t>(sizeof(Word));
  const std::int64_t count = std::min<std::int64_t>(sizeof(Word), row_bytes - first);
  if (row != nullptr) std::memcpy(&word, row + first, static_cast<std::size_t>(count));
  return word;
}

// Rows that begin at odd bytes, some of them missing, in memory that ends with them.
template <class Word, class Interleave>
void check_interleaved(std::size_t num_rows, std::int64_t row_bytes, Word flipped,
                       const Interleave& interleave) {
  CAPTURE(num_rows);
  CAPTURE(row_bytes);
  std::mt19937 random(static_cast<unsigned>(num_rows * 1000) + static_cast<unsigned>(row_bytes));
  std::vector<std::vector<std::byte>> memory;
  std::vector<const std::byte*> rows;
  for (std::size_t r = 0; r < num_rows; ++r) {
    const std::size_t before = random() % 4;
    memory.push_back(random_bytes(random, before + static_cast<std::size_t>(row_bytes)));
    rows.push_back(random() % 5 == 0 ? nullptr : memory.back().data() + before);
  }
  const std::int64_t words = (row_bytes + static_cast<std::int64_t>(sizeof(Word)) - 1) /
                             static_cast<std::int64_t>(sizeof(Word));
  std::vector<Word> found(static_cast<std::size_t>(words) * num_rows, 1);
  interleave(rows, row_bytes, found.data());
  std::size_t different = 0;
  for (std::int64_t i = 0; i < words; ++i) {
    for (std::size_t r = 0; r < num_rows; ++r) {
      const auto expected = static_cast<Word>(word_at<Word>(rows[r], row_bytes, i) ^ flipped);
      different += found[static_cast<std::size_t>(i) * num_rows + r] == expected ? 0 : 1;
    }
  }
  CHECK(different == 0);
}

TEST_SUITE("kernels/interleave") {
  TEST_CASE("words of rows are adjacent, at any length and place of the rows") {
    for (const std::size_t num_rows : {8u, 16u, 32u}) {
      for (std::int64_t row_bytes = 1; row_bytes < 150; ++row_bytes) {
        check_interleaved<std::uint16_t>(
            num_rows, row_bytes, 0,
            [](const auto& rows, std::int64_t bytes, void* to) { interleave_2(rows, bytes, to); });
        check_interleaved<std::uint32_t>(num_rows, row_bytes, 0x80808080,
                                         [](const auto& rows, std::int64_t bytes, void* to) {
                                           interleave_4(rows, bytes, to, 0x80808080);
                                         });
      }
    }
    check_interleaved<std::uint32_t>(
        32, 4100, 0,
        [](const auto& rows, std::int64_t bytes, void* to) { interleave_4(rows, bytes, to); });
  }

  TEST_CASE("codes of two rows share bytes") {
    std::mt19937 random(7);
    for (std::int64_t count = 1; count < 70; ++count) {
      std::vector<std::uint8_t> low(static_cast<std::size_t>(count));
      std::vector<std::uint8_t> high(low.size());
      for (std::uint8_t& byte : low) byte = static_cast<std::uint8_t>(random() & 255u);
      for (std::uint8_t& byte : high) byte = static_cast<std::uint8_t>(random() & 255u);
      for (const bool has_high : {true, false}) {
        std::vector<std::uint8_t> merged(2 * low.size(), 1);
        merge_nibbles(low.data(), has_high ? high.data() : nullptr, count, merged.data());
        std::size_t different = 0;
        for (std::size_t k = 0; k < merged.size(); ++k) {
          const unsigned shift = k % 2 == 0 ? 0 : 4;
          const unsigned of_low = low[k / 2] >> shift & 15u;
          const unsigned of_high = has_high ? high[k / 2] >> shift & 15u : 0u;
          different += merged[k] == (of_low | of_high << 4u) ? 0 : 1;
        }
        CHECK(different == 0);
      }
    }
  }
}

}  // namespace
}  // namespace caption::kernels::cpu
