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
  const bool fetch_ahead = m0 == 0 && n0 + std::int64_t{2} * kColumns <= args.n;
  std::int64_t k = 0;
  for (; k + Simd::kWidth <= args.k; k += Simd::kWidth) {
    Register rows[kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      rows[i] = Simd::in_register(Simd::load_floats(a + i * args.a_stride + k));
    }
    // Only one column is loaded at a time: 12 sums, 3 rows and 1 column use all 16 registers.
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) {
      const Register b =
          Simd::in_register(Simd::template load<element>(args.b, (n0 + j) * args.b_stride + k));
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) sums[i][j] = Simd::multiply_add(rows[i], b, sums[i][j]);
    }
    if (fetch_ahead) {
      for (int j = 0; j < kColumns; ++j) {
        Simd::template prefetch<element>(args.b, (n0 + kColumns + j) * args.b_stride + k);
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
  for (int i = 0; i < kRows; ++i) {
    float* const c = args.c + (m0 + i) * args.c_stride + n0;
    if constexpr (kColumns == 4) {
      Simd::store_four_sums(sums[i][0], sums[i][1], sums[i][2], sums[i][3], c);
    } else {
      for (int j = 0; j < kColumns; ++j) c[j] = Simd::sum(sums[i][j]);
    }
  }
}

template <class Simd, Element element, int kColumns>
void dot_columns(const GemmArgs& args, std::int64_t n0) {
  std::int64_t m = 0;
  for (; m + Simd::kTileRows <= args.m; m += Simd::kTileRows) {
    dot_tile<Simd, element, Simd::kTileRows, kColumns>(args, m, n0);
  }
  static_assert(Simd::kTileRows == 3 || Simd::kTileRows == 6);
  switch (args.m - m) {
    case 5: return dot_tile<Simd, element, 5, kColumns>(args, m, n0);
    case 4: return dot_tile<Simd, element, 4, kColumns>(args, m, n0);
    case 3: return dot_tile<Simd, element, 3, kColumns>(args, m, n0);
    case 2: return dot_tile<Simd, element, 2, kColumns>(args, m, n0);
    case 1: return dot_tile<Simd, element, 1, kColumns>(args, m, n0);
    default: return;
  }
}

// Four columns of b stay in the first-level cache while all rows of a are multiplied by them.
template <class Simd, Element element>
void dot(const GemmArgs& args) {
  std::int64_t n = 0;
  for (; n + 4 <= args.n; n += 4) dot_columns<Simd, element, 4>(args, n);
  for (; n < args.n; ++n) dot_columns<Simd, element, 1>(args, n);
}

}  // namespace caption::kernels::cpu
