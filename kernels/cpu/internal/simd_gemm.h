// kernels/cpu/internal/simd_gemm.h: Tier::dot as templates over the register width.
//
// `Simd` is a tier's set of operations (see kernels/cpu/avx512/tier.cpp): a register of kWidth
// floats, and how to load, multiply-add and sum it. Each tier defines it in an unnamed namespace,
// so every instantiation of these templates stays in the file that is compiled for the tier's
// instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

// Columns of b that share the first-level cache while all rows of a are multiplied by them.
inline constexpr int kDotColumns = 4;

// Columns of a tile. With 16 registers, 3 rows and 4 columns use 12 sums, 3 rows and 1 column; more
// rows and 2 columns at most 12 sums, 2 columns and 1 row: each widened column is then multiplied
// by up to 6 rows. With 32 registers, 6 rows and 4 columns use 24 sums, 6 rows and 1 column.
template <class Simd, int kRows>
inline constexpr int kTileColumns = Simd::kWidth == 8 && kRows > 3 ? 2 : kDotColumns;

// Writes the sums of a tile to c.
template <class Simd, int kRows, int kColumns>
void store_sums(const typename Simd::Register (&sums)[kRows][kColumns], float* c,
                std::int64_t c_stride) {
  if constexpr (kColumns == 4) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      Simd::store_four_sums(sums[i][0], sums[i][1], sums[i][2], sums[i][3], c + i * c_stride);
    }
  } else if constexpr (kColumns == 2) {
#pragma GCC unroll 4
    for (int i = 0; i < kRows; i += 2) {
      const int last = i + 1 < kRows ? i + 1 : i;
      float four[4];
      Simd::store_four_sums(sums[i][0], sums[i][1], sums[last][0], sums[last][1], four);
      __builtin_memcpy(c + i * c_stride, four, 2 * sizeof(float));
      __builtin_memcpy(c + last * c_stride, four + 2, 2 * sizeof(float));
    }
  } else {
    for (int i = 0; i < kRows; ++i) c[i * c_stride] = Simd::sum(sums[i][0]);
  }
}

// sums += a * b for kWidth terms from `k` on. Whichever of rows and columns are fewer stay in
// registers.
template <class Simd, Element element, int kRows, int kColumns>
void add_terms(const GemmArgs& args, const float* a, std::int64_t n0, std::int64_t k,
               typename Simd::Register (&sums)[kRows][kColumns]) {
  using Register = typename Simd::Register;
  const auto row = [&](int i) {
    return Simd::in_register(Simd::load_floats(a + i * args.a_stride + k));
  };
  const auto column = [&](int j) {
    return Simd::in_register(Simd::template load<element>(args.b, (n0 + j) * args.b_stride + k));
  };
  if constexpr (kColumns == 2) {
    const Register first = column(0);
    const Register second = column(1);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Register x = row(i);
      sums[i][0] = Simd::multiply_add(x, first, sums[i][0]);
      sums[i][1] = Simd::multiply_add(x, second, sums[i][1]);
    }
  } else {
    Register rows[kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) rows[i] = row(i);
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) {
      const Register b = column(j);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) sums[i][j] = Simd::multiply_add(rows[i], b, sums[i][j]);
    }
  }
}

// c[m0 + i, n0 + j] for a tile of kRows x kColumns. One register of partial sums per element: lane
// l holds the terms k = l (mod kWidth) in their order, whatever the tile's size.
template <class Simd, Element element, int kRows, int kColumns>
void dot_tile(const GemmArgs& args, std::int64_t m0, std::int64_t n0) {
  using Register = typename Simd::Register;
  Register sums[kRows][kColumns];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) sums[i][j] = Simd::zero();
  }
  const float* const a = args.a + m0 * args.a_stride;
  // Rows of b are too short for the hardware prefetcher to follow four of them at a time, so the
  // first tile that reads them prefetches the next columns (with M = 1 nothing else limits the
  // speed).
  const bool fetch_ahead = m0 == 0 && n0 + kDotColumns + kColumns <= args.n;
  std::int64_t k = 0;
  for (; k + Simd::kWidth <= args.k; k += Simd::kWidth) {
    add_terms<Simd, element, kRows, kColumns>(args, a, n0, k, sums);
    if (fetch_ahead) {
      for (int j = 0; j < kColumns; ++j) {
        Simd::template prefetch<element>(args.b, (n0 + kDotColumns + j) * args.b_stride + k);
      }
    }
  }
  if (k < args.k) {  // the remaining terms, padded with zeros, which add +0 to a lane
    const int rest = static_cast<int>(args.k - k);
    for (int j = 0; j < kColumns; ++j) {
      const Register b =
          Simd::template load_part<element>(args.b, (n0 + j) * args.b_stride + k, rest);
      for (int i = 0; i < kRows; ++i) {
        const Register row = Simd::load_part_floats(a + i * args.a_stride + k, rest);
        sums[i][j] = Simd::multiply_add(row, b, sums[i][j]);
      }
    }
  }
  store_sums<Simd, kRows, kColumns>(sums, args.c + m0 * args.c_stride + n0, args.c_stride);
}

// kRows rows by kColumns columns, kDotColumns or one.
template <class Simd, Element element, int kRows, int kColumns>
void dot_rows(const GemmArgs& args, std::int64_t m0, std::int64_t n0) {
  constexpr int kEach = kColumns == 1 ? 1 : kTileColumns<Simd, kRows>;
  for (int j = 0; j < kColumns; j += kEach) {
    dot_tile<Simd, element, kRows, kEach>(args, m0, n0 + j);
  }
}

// Tiles are as high as possible, and not equal: two of 6 and 2 rows take less than two of 4.
template <class Simd, Element element, int kColumns>
void dot_columns(const GemmArgs& args, std::int64_t n0) {
  std::int64_t m = 0;
  for (; m + Simd::kTileRows <= args.m; m += Simd::kTileRows) {
    dot_rows<Simd, element, Simd::kTileRows, kColumns>(args, m, n0);
  }
  static_assert(Simd::kTileRows == 6);
  switch (args.m - m) {
    case 5: return dot_rows<Simd, element, 5, kColumns>(args, m, n0);
    case 4: return dot_rows<Simd, element, 4, kColumns>(args, m, n0);
    case 3: return dot_rows<Simd, element, 3, kColumns>(args, m, n0);
    case 2: return dot_rows<Simd, element, 2, kColumns>(args, m, n0);
    case 1: return dot_rows<Simd, element, 1, kColumns>(args, m, n0);
    default: return;
  }
}

template <class Simd, Element element>
void dot(const GemmArgs& args) {
  std::int64_t n = 0;
  for (; n + kDotColumns <= args.n; n += kDotColumns) {
    dot_columns<Simd, element, kDotColumns>(args, n);
  }
  for (; n < args.n; ++n) dot_columns<Simd, element, 1>(args, n);
}

}  // namespace caption::kernels::cpu
