// kernels/cpu/internal/simd_integer_panels.h: Tier::panel8a8 for tiers that multiply 16-bit
// integers (simd_gemm.h describes `Simd`).
//
// Layout    a register holds the weights of four columns of kWidth features. Those of the even and
//           of the odd columns are widened to 16 bits by a mask and a shift; an instruction
//           multiplies both even (or odd) columns by a row's two activations and adds the products,
//           so that a lane sums one feature. Columns are processed in chunks, so that a chunk of
//           the panel and a tile's widened activations stay in the first-level cache while all rows
//           use them.
// Numerics  exact: two products are at most 2 * 255 * 128 in magnitude, far inside 32 bits.
#pragma once

#include <cstdint>

#include "kernels/cpu/internal/fetch_ahead.h"
#include "kernels/cpu/internal/row_tiles.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

inline constexpr std::int64_t kChunkQuads = 128;
inline constexpr std::int64_t kQuadCodes = 4 * kPanelColumns;

// A row's activations of a chunk: the first and third of every four, and the second and fourth.
struct WidenedRow {
  std::int16_t even[2 * kChunkQuads];
  std::int16_t odd[2 * kChunkQuads];
};

// Multiplies the quads [first, end) of kRows rows by kRegisters * kWidth features. Every chunk but
// the first is added to c.
template <class Simd, int kRows, int kRegisters>
void integer_tile(const IntegerArgs& args, std::int64_t first, std::int64_t end, std::int64_t m0,
                  std::int64_t feature, const WidenedRow* a) {
  typename Simd::Integers sums[kRows][kRegisters];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kRegisters; ++j) sums[r][j] = Simd::zero_integers();
  }
  for (std::int64_t quad = first; quad < end; ++quad) {
    const std::uint8_t* const codes = args.panel + quad * kQuadCodes + 4 * feature;
    if (m0 == 0 && feature == 0) {
      for (std::int64_t line = 0; line < kQuadCodes; line += 64) fetch_ahead(codes + line);
    }
    typename Simd::Integers even[kRegisters];
    typename Simd::Integers odd[kRegisters];
#pragma GCC unroll 4
    for (int j = 0; j < kRegisters; ++j) {
      const auto weights = Simd::load_bits(codes + j * 4 * Simd::kWidth);
      even[j] = Simd::even_bytes(weights);
      odd[j] = Simd::odd_bytes(weights);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto x = Simd::broadcast_bytes(a[r].even + 2 * (quad - first));
#pragma GCC unroll 4
      for (int j = 0; j < kRegisters; ++j) {
        sums[r][j] = Simd::multiply_add_pairs(x, even[j], sums[r][j]);
      }
      const auto y = Simd::broadcast_bytes(a[r].odd + 2 * (quad - first));
#pragma GCC unroll 4
      for (int j = 0; j < kRegisters; ++j) {
        sums[r][j] = Simd::multiply_add_pairs(y, odd[j], sums[r][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    std::int32_t* const c = args.c + (m0 + r) * args.c_stride + feature;
#pragma GCC unroll 4
    for (int j = 0; j < kRegisters; ++j) {
      std::int32_t* const to = c + j * Simd::kWidth;
      Simd::store_integers(
          to, first == 0 ? sums[r][j] : Simd::add_integers(Simd::load_bits(to), sums[r][j]));
    }
  }
}

template <class Simd>
void panel8a8(const IntegerArgs& args) {
  std::int64_t first = 0;
  do {
    const std::int64_t end =
        first + kChunkQuads < args.num_quads ? first + kChunkQuads : args.num_quads;
    for_row_tiles<Simd, Simd::kIntegerRows>(args.m, [&](std::int64_t m, auto rows) {
      alignas(64) WidenedRow a[rows()];
      for (int r = 0; r < rows(); ++r) {
        Simd::widen_i8(args.a + (m + r) * args.a_stride + 4 * first, 4 * (end - first), a[r].even,
                       a[r].odd);
      }
      // A single row reads the panel only once, so it uses as many features at a time as possible.
      constexpr int kAll = static_cast<int>(kPanelColumns) / Simd::kWidth;
      constexpr int kRegisters = rows() == 1 ? kAll : 2;
      for (std::int64_t n = 0; n < kPanelColumns; n += std::int64_t{kRegisters} * Simd::kWidth) {
        integer_tile<Simd, rows(), kRegisters>(args, first, end, m, n, a);
      }
    });
    first += kChunkQuads;
  } while (first < args.num_quads);
}

}  // namespace caption::kernels::cpu
