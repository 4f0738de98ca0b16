// weights/internal/code_rows.h: moves codes from the words of a file into rows of QuantisedMatrix,
// a word at a time.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tensor/quantised_matrix.h"

namespace caption::weights {

// Stores a word, whose lowest bits come first.
inline void store_word(std::uint32_t word, std::uint8_t* to) {
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(to, &word, sizeof(word));
}

// Brings a row of codes, [K] or [ceil(K / 2)] bytes in the order of the columns of the matrix, into
// the order of the stored columns. `order` may be null: nothing changes.
void reorder_columns(const ColumnOrder& order, bool is_4_bit, std::span<std::uint8_t> row);

// Words of 4-bit codes [K / 8, N], eight columns of a row each, the first in the lowest bits; rows
// of words lie `stride` words apart.
struct WordsOfColumns {
  const std::uint32_t* first = nullptr;  // that of the first row
  std::int64_t stride = 0;
};
// copy_in_order() takes a multiple of so many rows.
inline constexpr std::int64_t kRowsInOrder = 32;
// Writes `num_rows` rows [K / 2] of codes, whose columns are in the order of the stored columns:
// reorder_columns() of the transposed words, in less time.
void copy_in_order(const WordsOfColumns& words, const std::vector<std::int32_t>& order,
                   std::int64_t num_rows, std::uint8_t* to);

// A vector of the compiler, which every instruction set has.
using FourWords = std::uint32_t __attribute__((vector_size(16)));

// Exchanges rows and columns of 4 x 4 words.
inline std::array<FourWords, 4> transpose_words(const std::array<FourWords, 4>& rows) {
  const FourWords low_01 = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
  const FourWords high_01 = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
  const FourWords low_23 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
  const FourWords high_23 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
  return {__builtin_shufflevector(low_01, low_23, 0, 1, 4, 5),
          __builtin_shufflevector(low_01, low_23, 2, 3, 6, 7),
          __builtin_shufflevector(high_01, high_23, 0, 1, 4, 5),
          __builtin_shufflevector(high_01, high_23, 2, 3, 6, 7)};
}

// Exchanges words and nibbles: nibble j of result i is nibble i of words[j]. Word is std::uint32_t,
// or FourWords: four blocks of words side by side. Inlined, since a call would bring the words
// through memory.
template <class Word>
[[gnu::always_inline]] inline std::array<Word, 8> transpose_nibbles(std::array<Word, 8> words) {
  constexpr std::array<std::uint32_t, 3> kMasks = {0x0f0f0f0f, 0x00ff00ff, 0x0000ffff};
  for (std::size_t round = 0; round < kMasks.size(); ++round) {
    const std::size_t distance = std::size_t{1} << round;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if ((i & distance) != 0) continue;
      const auto shift = static_cast<std::uint32_t>(4 * distance);
      const Word difference = (words[i] >> shift ^ words[i + distance]) & kMasks[round];
      words[i + distance] ^= difference;
      words[i] ^= difference << shift;
    }
  }
  return words;
}

}  // namespace caption::weights
