// kernels/cpu/internal/simd_codes.h: reads panels of quantised weights into registers of f32, as
// templates over the register width (simd_gemm.h describes `Simd`).
#pragma once

#include <cstdint>

#include "kernels/cpu/internal/fetch_ahead.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

inline constexpr std::int64_t kPairCodes = 2 * kPanelColumns;

template <class Simd>
inline constexpr int kPanelRegisters = static_cast<int>(kPanelColumns) / Simd::kWidth;

template <class Simd>
using PanelSums = typename Simd::Register[kPanelRegisters<Simd>];

// The weights of a pair of columns before scaling.
template <class Simd>
struct PanelPair {
  typename Simd::Register columns[2][kPanelRegisters<Simd>];
};

// Weights of a byte each; kWiden writes the even and the odd columns of Simd::kWidth features.
template <class Simd, auto kWiden>
struct PanelBytes {
  explicit PanelBytes(const QuantisedArgs& args) : codes(args.codes) {}
  void load(std::int64_t pair, PanelPair<Simd>& weights) const {
    const std::uint8_t* const from = codes + pair * kPairCodes;
    fetch_ahead(from);
#pragma GCC unroll 4
    for (int j = 0; j < kPanelRegisters<Simd>; ++j) {
      kWiden(from + j * 2 * Simd::kWidth, weights.columns[0][j], weights.columns[1][j]);
    }
  }
  const std::uint8_t* codes;
};
template <class Simd>
using PanelCodes8 = PanelBytes<Simd, Simd::widen_i8_pairs>;
template <class Simd>
using PanelCodesE4M3 = PanelBytes<Simd, Simd::widen_e4m3_pairs>;

template <class Simd>
struct PanelCodes4 {
  explicit PanelCodes4(const QuantisedArgs& args) : codes(args.codes), codebook(args.codebook) {}
  void load(std::int64_t pair, PanelPair<Simd>& weights) const {
    const std::uint8_t* const from = codes + pair * kPanelColumns;
    fetch_ahead(from);
    codebook.look_up(from, weights.columns[0], weights.columns[1]);
  }
  const std::uint8_t* codes;
  typename Simd::Codebook codebook;
};

// Adds the products of both columns of a pair with a row's activations.
template <class Simd, class Codes>
void add_pair(const Codes& codes, std::int64_t pair, const float* x, PanelSums<Simd>& sums) {
  PanelPair<Simd> weights;
  codes.load(pair, weights);
#pragma GCC unroll 2
  for (int c = 0; c < 2; ++c) {
    const auto activation = Simd::broadcast(x[c]);
#pragma GCC unroll 4
    for (int j = 0; j < kPanelRegisters<Simd>; ++j) {
      sums[j] = Simd::multiply_add(activation, weights.columns[c][j], sums[j]);
    }
  }
}

// Multiplies one row of activations with a panel of codes, PanelCodes8, PanelCodesE4M3 or
// PanelCodes4.
template <class Simd, class Codes>
struct PanelRow : Codes {
  using Codes::Codes;
  void add(std::int64_t pair, const float* x, PanelSums<Simd>& sums) const {
    add_pair<Simd>(*this, pair, x, sums);
  }
  static void settle(PanelSums<Simd>&) {}
};

// Integer codes of 4 bits on tiers that have Simd::WordCodes. Products and sums have the bits of
// PanelRow times a power of 2, as long as activations are below 2^95.
template <class Simd, bool kIsSigned>
struct PanelRowOfIntegers4 {
  using Numbers = typename Simd::template WordCodes<kIsSigned>;
  explicit PanelRowOfIntegers4(const QuantisedArgs& args) : codes(args.codes) {}
  void add(std::int64_t pair, const float* x, PanelSums<Simd>& sums) const {
    const std::uint8_t* const from = codes + pair * kPanelColumns;
    fetch_ahead(from);
    Numbers::add_pair(from, x, sums);
  }
  static void settle(PanelSums<Simd>& sums) { Numbers::settle(sums); }
  const std::uint8_t* codes;
};

// Writes the weights of the pairs [first, end) as f32, column after column, 32 numbers each.
template <class Simd, class Codes>
void expand(const Codes& codes, std::int64_t first, std::int64_t end, float* to) {
  for (std::int64_t pair = first; pair < end; ++pair) {
    PanelPair<Simd> weights;
    codes.load(pair, weights);
#pragma GCC unroll 2
    for (int c = 0; c < 2; ++c) {
#pragma GCC unroll 4
      for (int j = 0; j < kPanelRegisters<Simd>; ++j, to += Simd::kWidth) {
        Simd::store(to, weights.columns[c][j]);
      }
    }
  }
}

}  // namespace caption::kernels::cpu
