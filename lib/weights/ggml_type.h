// weights/ggml_type.h: the element types of GGUF files, and the values of their blocks.
//
// A row of a tensor is a sequence of blocks, each of which holds a fixed number of values. With d,
// m and dmin f16 numbers, sc and mn integers of 6 bits (Q6_K: sc of 8 bits, signed) and q a code:
//   type    block  bytes  value                   layout of codes_of_rows()
//   F32         1      4  x                       none
//   F16         1      2  x                       none
//   BF16        1      2  x                       none
//   Q8_0       32     34  d * q                   8 bits, groups of 32
//   Q4_0       32     18  d * (q - 8)             4 bits, groups of 32
//   Q4_1       32     20  d * q + m               4 bits, groups of 32, offsets
//   Q5_0       32     22  d * (q - 16)            8 bits, groups of 32
//   Q5_1       32     24  d * q + m               8 bits, groups of 32, offsets
//   IQ4_NL     32     18  d * table[q]            4 bits, groups of 32
//   Q4_K      256    144  d * sc * q - dmin * mn  4 bits, groups of 32, offsets
//   Q5_K      256    176  d * sc * q - dmin * mn  8 bits, groups of 32, offsets
//   Q6_K      256    210  d * sc * (q - 32)       8 bits, groups of 16
// Every layout is exact. An f16 number has 11 significant bits, so in f32 (24 bits) the scale d *
// sc (at most 19 bits), the offset -dmin * mn (17) and the product of scale and code (24) are
// exact; an f16 number is at least 2^-24 or 0 and below 2^16, so none of them underflows or
// overflows. The sum with an offset is the only rounding, and it is the same in decode_rows() and
// in QuantisedMatrix::value(), fused or not. The two differ only in the sign of a zero.
//
// Source: gguf-py 0.19 (ggml-org/llama.cpp, gguf-py/gguf/{constants,quants}.py), with the same bits
// (tests/golden/gguf).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tensor/quantised_matrix.h"

namespace caption::weights {

// The numbers that files hold. A type that is not named here may still be one that
// find_ggml_type() knows.
enum class GgmlType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kBF16 = 30,
};

struct GgmlTypeTraits {
  GgmlType type = GgmlType::kF32;
  std::string_view name;            // "Q4_K"
  std::int64_t block_elements = 1;  // 1 for a type without blocks
  std::int64_t block_bytes = 0;
  bool is_decoded = false;  // decode_rows() reads it
};

// Returns nullptr for a number that no type has, or whose type no longer exists.
const GgmlTypeTraits* find_ggml_type(std::uint32_t number);

// Rows [first, first + count) of a matrix of `num_columns` columns, whose rows of blocks follow one
// another in `bytes`. `num_columns` is a multiple of the block, and the rows are inside `bytes`.
struct GgmlRows {
  GgmlType type = GgmlType::kF32;
  std::span<const std::byte> bytes;
  std::int64_t num_columns = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Writes the values of the rows, [count, num_columns] f32, to `values`. Throws Error(kInternal) for
// a type that is not decoded, or rows that are not inside the bytes.
void decode_rows(const GgmlRows& rows, float* values);

// Returns how codes_of_rows() gives the type; nullopt for a type that it does not read.
std::optional<CodeLayout> code_layout_of(GgmlType type);
// Returns the values of 4-bit codes; nullopt for a type whose codes are the values.
std::optional<std::array<float, 16>> codebook_of(GgmlType type);
// Returns how blocks of the type are packed from a file (CodeOrder::kBlocks); nullopt for a type
// that codes_of_rows() does not read.
std::optional<CodeBlocks> code_blocks_of(GgmlType type);
// Returns the same rows as codes. Throws Error(kInternal) as decode_rows() and for a type without
// codes; Error(kBadModel) "a weight is not a finite number" for a scale or an offset that is none.
QuantisedMatrix codes_of_rows(const GgmlRows& rows);

}  // namespace caption::weights
