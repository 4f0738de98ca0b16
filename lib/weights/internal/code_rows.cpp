#include "weights/internal/code_rows.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace caption::weights {
namespace {

constexpr std::int64_t kColumnsOfWord = 8;

// Either a word of each of 32 rows, lane l of words[j] being that of row 4 * j + l; or the codes of
// eight columns, nibble j of lane l of columns[i] being that of row 4 * j + l.
using EightWords = std::array<FourWords, kColumnsOfWord>;

// Splits words into columns: columns[b * K + k] has the codes of column k of the b-th 32 rows.
void split_columns(const WordsOfColumns& words, std::int64_t num_columns, std::int64_t num_blocks,
                   FourWords* columns) {
  // The processor does not foresee steps of kilobytes: words further on are fetched here.
  constexpr std::int64_t kAhead = 16;
  const std::int64_t num_words = num_columns / kColumnsOfWord;
  for (std::int64_t word = 0; word < num_words; ++word) {
    const std::uint32_t* const from = words.first + word * words.stride;
    for (std::int64_t block = 0; block < num_blocks; ++block) {
      const std::uint32_t* const of_block = from + block * kRowsInOrder;
      if (word + kAhead < num_words) {
        __builtin_prefetch(of_block + kAhead * words.stride);
        __builtin_prefetch(of_block + kAhead * words.stride + kRowsInOrder / 2);
      }
      EightWords eight;
      for (std::size_t j = 0; j < eight.size(); ++j) {
        std::memcpy(&eight[j], of_block + 4 * j, sizeof(eight[j]));
      }
      eight = transpose_nibbles(eight);
      std::copy(eight.begin(), eight.end(), columns + block * num_columns + word * kColumnsOfWord);
    }
  }
}

// Writes 32 rows of codes from their columns.
void join_columns(const FourWords* columns, const std::vector<std::int32_t>& order,
                  std::uint8_t* to) {
  constexpr std::size_t kWords = 4;  // words of a row that are written at a time
  const auto row_bytes = static_cast<std::int64_t>(order.size()) / 2;
  const std::int32_t* const column = order.data();
  for (std::size_t k = 0; k < order.size(); k += kWords * kColumnsOfWord) {
    const std::size_t num_words = std::min(kWords, (order.size() - k) / kColumnsOfWord);
    std::array<EightWords, kWords> words{};
    for (std::size_t word = 0; word < num_words; ++word) {
      EightWords& eight = words[word];
      for (std::size_t i = 0; i < eight.size(); ++i) {
        eight[i] = columns[column[k + word * kColumnsOfWord + i]];
      }
      eight = transpose_nibbles(eight);
    }
    std::uint8_t* row = to + k / 2;
    for (std::size_t j = 0; j < words[0].size(); ++j) {
      for (const FourWords& four :
           transpose_words({words[0][j], words[1][j], words[2][j], words[3][j]})) {
        if (num_words == kWords) {
          std::memcpy(row, &four, sizeof(four));
        } else {
          std::memcpy(row, &four, num_words * sizeof(std::uint32_t));
        }
        row += row_bytes;
      }
    }
  }
}

}  // namespace

void copy_in_order(const WordsOfColumns& words, const std::vector<std::int32_t>& order,
                   std::int64_t num_rows, std::uint8_t* to) {
  const auto num_columns = static_cast<std::int64_t>(order.size());
  const std::int64_t num_blocks = num_rows / kRowsInOrder;
  const auto columns = std::make_unique_for_overwrite<FourWords[]>(
      static_cast<std::size_t>(num_columns * num_blocks));
  split_columns(words, num_columns, num_blocks, columns.get());
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    join_columns(columns.get() + block * num_columns, order,
                 to + block * kRowsInOrder * num_columns / 2);
  }
}

void reorder_columns(const ColumnOrder& order, bool is_4_bit, std::span<std::uint8_t> row) {
  if (order == nullptr) return;
  const std::int32_t* const column = order->data();
  const std::size_t columns = order->size();
  if (!is_4_bit) {
    const std::vector<std::uint8_t> from(row.begin(), row.end());
    for (std::size_t k = 0; k < columns; ++k) row[k] = from[static_cast<std::size_t>(column[k])];
    return;
  }
  // A byte for each column, so that columns are gathered without shifts.
  std::vector<std::uint8_t> codes(2 * row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    codes[2 * i] = row[i] & 15;
    codes[2 * i + 1] = row[i] >> 4;
  }
  const std::uint8_t* const code = codes.data();
  std::uint8_t* const to = row.data();
  for (std::size_t i = 0; i < columns / 2; ++i) {
    to[i] = static_cast<std::uint8_t>(code[column[2 * i]] | code[column[2 * i + 1]] << 4);
  }
  if (columns % 2 != 0) to[columns / 2] = code[column[columns - 1]];
}

}  // namespace caption::weights
