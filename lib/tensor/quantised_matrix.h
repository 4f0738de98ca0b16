// tensor/quantised_matrix.h: a matrix of 8- or 4-bit codes in groups of columns, made by
// weights/quantise.h or read from a file of codes; a backend packs it. With g = k / group_columns:
//   8 bits  value[n, k] = scale[n, g] * code[n, k] (+ offset[n, g]), where a code is an integer or,
//           of kE4M3Row, a floating-point number
//   4 bits  value[n, k] = scale[n, g] * codebook[code[n, k]] (+ offset[n, g])
//          or, with steps, scale[n] * (step[n, g] * code[n, k] + base[n, g] - 128)
// The codebook holds 16 numbers: -8 .. 7 for int4, or those of nf4, fp4 or another format.
//
// With a column order, the stored column k holds column column_order[k] of the matrix, so that the
// columns of a group are adjacent where a file has scattered them (GPTQ's act-order).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "tensor/code_blocks.h"
#include "tensor/dtype.h"
#include "tensor/e4m3.h"
#include "tensor/tensor.h"

namespace caption {

// A permutation of the columns 0 .. K - 1. Matrices that are multiplied with the same input may
// share one.
using ColumnOrder = std::shared_ptr<const std::vector<std::int32_t>>;

// Columns of a row that share a unit.
inline constexpr std::int64_t kUnitColumns = 256;

// The dtypes that hold every scale and every offset of a matrix exactly. Offsets of kI8 are
// multiples of the scales: the product of the two numbers, rounded to f32, is the offset. Scales of
// kI8 are exact multiples of units, F16 numbers of kUnitColumns columns, which are a multiple of
// group_columns; so are their offsets, of units of their own.
struct NumberDTypes {
  DType scales = DType::kF32;   // or kBF16, kF16, kI8
  DType offsets = DType::kF32;  // or kBF16, kF16, kI8

  bool has_units() const { return scales == DType::kI8; }
  bool operator==(const NumberDTypes&) const = default;
};

// What decides the size of a QuantisedMatrix besides its shape.
struct CodeLayout {
  bool is_8_bit = false;
  std::int64_t group_columns = 0;
  bool has_offsets = false;
  bool has_column_order = false;
  NumberDTypes numbers = {};

  // Bytes of the scales and offsets of one row of so many columns, which are `groups` groups.
  std::int64_t number_bytes(std::int64_t columns, std::int64_t groups) const {
    const auto group_bytes = static_cast<std::int64_t>(
        dtype_size_bytes(numbers.scales) + (has_offsets ? dtype_size_bytes(numbers.offsets) : 0));
    if (!numbers.has_units()) return groups * group_bytes;
    const auto unit_bytes = static_cast<std::int64_t>(dtype_size_bytes(DType::kF16));
    const std::int64_t units = (columns + kUnitColumns - 1) / kUnitColumns;
    return groups * group_bytes + units * unit_bytes * (has_offsets ? 2 : 1);
  }
};

// Bytes of the codes, scales and offsets of a matrix [rows, columns], without padding, where they
// are held in the dtypes of the layout.
inline std::int64_t codes_bytes(std::int64_t rows, std::int64_t columns, const CodeLayout& layout) {
  const std::int64_t groups = (columns + layout.group_columns - 1) / layout.group_columns;
  const std::int64_t codes = layout.is_8_bit ? columns : (columns + 1) / 2;
  return rows * (codes + layout.number_bytes(columns, groups));
}

// The order in which a file holds the codes of rows of a matrix.
enum class CodeOrder {
  kRows,          // that of QuantisedMatrix::codes
  kRowsOddFirst,  // 4 bits: the odd column in the low half of a byte (bitsandbytes)
  // Blocks of columns of a row, which hold their scales and offsets, too.
  kBlocks,
  // 4 bits, words of 32 bits [K / 8, N]: eight columns of a row, the first in the lowest bits
  // (GPTQ).
  kWordsOfColumns,
  // The same in the order of the columns of the matrix: those of stored column k are in word
  // column_order[k] / 8 of a row (GPTQ with act-order).
  kWordsOfMatrixColumns,
  // 4 bits, words of 32 bits [K, N / 8]: eight rows of a column; nibble i holds row {0, 2, 4, 6, 1,
  // 3, 5, 7}[i] (AWQ).
  kWordsOfRows,
};

inline bool has_offsets(CodeBlocks blocks) {
  switch (blocks) {
    case CodeBlocks::kQ4_1:
    case CodeBlocks::kQ5_1:
    case CodeBlocks::kQ4_K:
    case CodeBlocks::kQ5_K: return true;
    case CodeBlocks::kQ4_0:
    case CodeBlocks::kQ5_0:
    case CodeBlocks::kQ8_0:
    case CodeBlocks::kQ6_K: break;
  }
  return false;
}

// Scales and offsets of the blocks with F16 numbers for each 32 columns are these numbers; larger
// blocks have units and integers.
inline NumberDTypes number_dtypes(CodeBlocks blocks) {
  switch (blocks) {
    case CodeBlocks::kQ4_0:
    case CodeBlocks::kQ4_1:
    case CodeBlocks::kQ5_0:
    case CodeBlocks::kQ5_1:
    case CodeBlocks::kQ8_0: return {.scales = DType::kF16, .offsets = DType::kF16};
    case CodeBlocks::kQ4_K:
    case CodeBlocks::kQ5_K:
    case CodeBlocks::kQ6_K: break;
  }
  return {.scales = DType::kI8, .offsets = DType::kI8};
}

// Codes of rows of a matrix where a file has them. Borrowed.
struct FileCodes {
  CodeOrder order = CodeOrder::kRows;
  CodeBlocks blocks = CodeBlocks::kQ4_0;  // for kBlocks
  bool is_4_bit = true;
  std::int64_t num_rows = 0;
  // Where each row begins; empty for words.
  std::vector<const std::uint8_t*> rows = {};
  // Words: the first of the matrix's first row, and the bytes between rows of words.
  const std::uint8_t* words = nullptr;
  std::int64_t stride_bytes = 0;

  bool empty() const { return num_rows == 0; }
};

// Scales of rows of a matrix where a file has them, and 4-bit zeros of which offsets are made:
//   offset[n, g] = scale[n, g] * (middle - zero[n, g])
// The offsets are then multiples of the scales (NumberDTypes). Borrowed.
struct FileScales {
  DType dtype = DType::kF32;      // that of the matrix's number_dtypes
  const void* numbers = nullptr;  // that of the first row and group
  std::int64_t row_stride = 0;    // elements between rows
  std::int64_t group_stride = 0;  // elements between groups; this or the other stride is 1
  // A scale of a larger magnitude, or a NaN, is refused when the matrix is read in rows.
  float largest = std::numeric_limits<float>::max();
  // The word of the zeros of the first eight rows in the first group; those of further rows follow,
  // and those of the next group are zero_stride words further on. Null if there are none. The
  // nibbles of a word are in the order of those of the codes: ascending rows with kWordsOfColumns.
  const std::uint32_t* zeros = nullptr;
  std::int64_t zero_stride = 0;
  std::int8_t middle = 0;

  bool empty() const { return numbers == nullptr; }
};

struct QuantisedMatrix {
  std::int64_t num_columns = 0;      // K
  std::int64_t group_columns = 0;    // columns that share a scale; the last group may be shorter
  Tensor codes;                      // [N, K] i8, or [N, ceil(K / 2)] u8: column 2i in the low half
  Tensor scales;                     // [N, groups] f32; with steps [N, 1]
  Tensor offsets;                    // [N, groups] f32, or empty
  Tensor scale_units;                // [N, units] f32 if number_dtypes has units, or empty
  Tensor offset_units;               // the same, with offsets
  Tensor steps;                      // [N, groups] u8, or empty
  Tensor bases;                      // [N, groups] u8, as steps
  std::array<float, 16> codebook{};  // for 4-bit codes without steps
  ColumnOrder column_order;          // null: the columns are in order
  NumberDTypes number_dtypes = {};   // without steps
  bool has_e4m3_codes = false;       // with 8 bits: whether codes are numbers of tensor/e4m3.h
  // If this is not empty, `codes` is, and code_value(), eight_bits() and value() are not for the
  // matrix. The scales and offsets of kBlocks are in the file alone.
  FileCodes file_codes;
  // The scales of borrowed rows. If this is not empty, `scales` and `offsets` are, and value() is
  // not for it.
  FileScales file_scales;

  bool has_offsets() const {
    const bool is_of_blocks = !file_codes.empty() && file_codes.order == CodeOrder::kBlocks;
    return !offsets.empty() || file_scales.zeros != nullptr ||
           (is_of_blocks && caption::has_offsets(file_codes.blocks));
  }

  std::int64_t num_rows() const { return file_codes.empty() ? codes.dim(0) : file_codes.num_rows; }
  std::int64_t num_groups() const { return (num_columns + group_columns - 1) / group_columns; }
  bool is_4_bit() const {
    return file_codes.empty() ? codes.dtype() == DType::kU8 : file_codes.is_4_bit;
  }

  // Returns codebook[code], or the code if it has 8 bits, before scaling. `k` counts the stored
  // columns, here and in the next functions.
  float code_value(std::int64_t row, std::int64_t k) const {
    if (!is_4_bit()) {
      const std::int8_t code = codes.as<std::int8_t>()[row * num_columns + k];
      return has_e4m3_codes ? from_e4m3(static_cast<std::uint8_t>(code)) : to_float(code);
    }
    return codebook[nibble(row, k)];
  }
  // With steps: step * code + base - 128.
  int eight_bits(std::int64_t row, std::int64_t k) const {
    const std::int64_t group = row * num_groups() + k / group_columns;
    return steps.as<std::uint8_t>()[group] * static_cast<int>(nibble(row, k)) +
           bases.as<std::uint8_t>()[group] - 128;
  }
  float value(std::int64_t row, std::int64_t k) const {
    const std::int64_t group = row * num_groups() + k / group_columns;
    if (!steps.empty()) return scales.as<float>()[row] * static_cast<float>(eight_bits(row, k));
    const float offset = offsets.empty() ? 0.0F : offsets.as<float>()[group];
    return scales.as<float>()[group] * code_value(row, k) + offset;
  }
  // Returns the column of the matrix that the stored column `k` holds.
  std::int64_t column_of(std::int64_t k) const {
    return column_order == nullptr ? k : (*column_order)[static_cast<std::size_t>(k)];
  }

 private:
  unsigned nibble(std::int64_t row, std::int64_t k) const {
    const std::uint8_t both = codes.as<std::uint8_t>()[row * codes.dim(1) + k / 2];
    return k % 2 == 0 ? both & 15u : both >> 4u;
  }
};

}  // namespace caption
