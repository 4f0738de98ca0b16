// kernels/cuda/codes.h: weights held as codes of 8 or 4 bits, in the order in which tensor cores
// take them, and the dense layer with them.
//
//   kInt8    codes of 8 bits in groups of columns
//   kInt4    codes of 4 bits in groups of columns: 0 .. 15 for the integers -8 .. 7
//   kTable4  codes of 4 bits in groups of columns: places in a codebook of 16 numbers
//   kInt8A8  codes of 8 bits with a scale per row; x is rounded to 8 bits
//   kE4M3    floating-point numbers of 8 bits (tensor/e4m3.h) with a scale per row; x is rounded to
//            such numbers, with a scale per row; on GPUs of compute capability 8.9 and later
//   kInt4A8  codes of 4 bits with an integer step and base per group and a scale per row; x is
//            rounded to 8 bits
//
// Columns  a group is padded with columns of zeros to a multiple of 16 (kInt8) or 32: the "packed"
//          columns; of kE4M3 all columns are one group, which is padded to a multiple of 64. The
//          forms of x below have them too.
// Tiles    tiles[n / 16][k / tile columns][lane]   16 bytes: the codes of a lane, of the features
//          n .. n + 15 and 32 (8 bits) or 64 (4 bits) packed columns (kernels/cuda/code_layout.cuh)
// Numbers  of kInt8, kInt4 and kTable4  [n / 16][group][8] the scales of the features f and f + 8,
//          and then their offsets if there are any, f32;
//          of kInt4A8  [n / 16][group][8] the step and base of f, the step and base of f + 8, u8
// Rows     of kInt8A8, kE4M3 and kInt4A8  [n / 16][16] the scale of a feature, f32
// Missing features have zeros everywhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/stream.h"
#include "tensor/quantised_matrix.h"
#include "tensor/tensor.h"

namespace caption::kernels::cuda {

enum class CodeKind { kInt8, kInt4, kTable4, kInt8A8, kInt4A8, kE4M3 };

constexpr bool has_4_bits(CodeKind kind) {
  return kind != CodeKind::kInt8 && kind != CodeKind::kInt8A8 && kind != CodeKind::kE4M3;
}
// Whether x is rounded to integers of 8 bits and products are integers.
constexpr bool has_integer_products(CodeKind kind) {
  return kind == CodeKind::kInt8A8 || kind == CodeKind::kInt4A8;
}

// Whether x is rounded to 8 bits, and rows of x and of the matrix have a scale.
constexpr bool has_8_bit_inputs(CodeKind kind) {
  return has_integer_products(kind) || kind == CodeKind::kE4M3;
}
// Whether a row of the matrix is one group, whose scale is in CodeShape's rows.
constexpr bool has_whole_rows(CodeKind kind) {
  return kind == CodeKind::kInt8A8 || kind == CodeKind::kE4M3;
}

// Extents of a matrix of codes, made by make_code_shape().
struct CodeShape {
  CodeKind kind = CodeKind::kInt8;
  bool has_offsets = false;
  int num_features = 0;   // N
  int num_columns = 0;    // K
  int group_columns = 0;  // columns of a group, at most 128; of whole rows K
  int num_groups = 0;
  int packed_group = 0;  // group_columns and the zeros after them
  int tile_columns = 0;
  int tile_rows = 0;      // tiles along N
  int tiles_per_row = 0;  // tiles along K
  int group_bytes = 0;    // bytes of a group's numbers for 16 features

  // Columns of x as the kernels read it.
  int packed_columns() const { return tiles_per_row * tile_columns; }
  std::int64_t tiles_bytes() const { return std::int64_t{512} * tile_rows * tiles_per_row; }
  std::int64_t numbers_bytes() const { return std::int64_t{group_bytes} * tile_rows * num_groups; }
  std::int64_t rows_bytes() const {
    return has_8_bit_inputs(kind) ? std::int64_t{64} * tile_rows : 0;
  }
};

// The shape of a matrix [num_features, num_columns] whose groups have `group_columns` columns, at
// most 128 or a multiple of it or all of them; more than 128 are cut into several groups. Throws
// Error(kInternal) for other groups and for more than 131,072 columns.
CodeShape make_code_shape(CodeKind kind, std::int64_t num_features, std::int64_t num_columns,
                          std::int64_t group_columns, bool has_offsets);

// Columns of a step of sums of e4m3 products: tensor cores sum a step from 0, and steps are added
// in f32. Those of compute capability 8.9 cut 17 terms to 13 fractional bits of the largest, and
// their sum to 13, for each 16 of the columns. With S the sum of a step's magnitudes the error is
// at most 4 * (17 + 1) * 2^-13 S < 0.009 S (8 S in place of S where a subnormal factor has the
// largest exponent); the rounding of a factor alone changes its product by up to 2^-4 = 0.06 of it.
inline constexpr int kE4M3StepColumns = 64;
// Columns of a slice, whose steps are added from 0; slices are added in their order. Of few columns
// each of the four warps that share them has a slice.
constexpr int e4m3_slice_columns(int packed_columns) {
  constexpr int kMost = 1024;
  const int quarter =
      (packed_columns + 4 * kE4M3StepColumns - 1) / (4 * kE4M3StepColumns) * kE4M3StepColumns;
  return quarter < kMost ? quarter : kMost;
}

// Whether the kernels of this build multiply e4m3 numbers on a GPU of this compute capability;
// unknown ones (0) count as new. On 8.9 it takes a build by a CUDA toolkit from 12.4 on.
bool has_e4m3_products(int compute_capability);

// A matrix of codes in device memory.
struct PackedCodes {
  CodeShape shape;
  DType dtype = DType::kBF16;  // or f16: of the factors of products that are not integers
  const void* tiles = nullptr;
  const void* numbers = nullptr;
  const float* rows = nullptr;
  const std::int32_t* column_order = nullptr;  // [K], as QuantisedMatrix has it; null: in order
  float codebook[16] = {};                     // kTable4
};

// Rows of a matrix of codes as QuantisedMatrix has them, in device memory. Its groups may be
// several of a CodeShape's.
struct StoredCodeRows {
  const std::uint8_t* codes = nullptr;  // [count, row_bytes]
  const float* scales = nullptr;        // [count, groups], or [count] of has_8_bit_inputs()
  const float* offsets = nullptr;       // [count, groups], or null
  const std::uint8_t* steps = nullptr;  // [count, groups], or null
  const std::uint8_t* bases = nullptr;  // as steps
  int first = 0;                        // row of the matrix; a multiple of 16
  int count = 0;
  int row_bytes = 0;
  int group_columns = 0;
};
// Writes the tiles, numbers and scales of some rows to `to`, of the whole matrix.
void pack_code_rows(Stream& stream, const StoredCodeRows& from, const PackedCodes& to);

// y[t, :] = row ids[t] of the matrix, with a codebook that is not rounded. y [T, K] f32.
void unpack_code_rows(Stream& stream, ConstView ids, const PackedCodes& from, View y);

// x [M, K] as the kernels read it, in device memory.
struct CodedRows {
  const void* x = nullptr;            // [M, packed columns] of PackedCodes::dtype, or 8 bits
  const float* group_sums = nullptr;  // [ceil(M / 8)][groups][8], for matrices with offsets
  const float* scales = nullptr;      // [M], of rows of 8 bits
};
std::size_t coded_rows_bytes(const CodeShape& shape, std::int64_t num_rows);
// x [M, K] f32, bf16 or f16, rows may be strided. Rounds it to the type that `weight` multiplies,
// into `scratch` of coded_rows_bytes(). The result serves all matrices of the same kind, dtype, K,
// groups and column order, with offsets only if `weight` has them.
CodedRows code_rows(Stream& stream, ConstView x, const PackedCodes& weight, std::byte* scratch);

}  // namespace caption::kernels::cuda
