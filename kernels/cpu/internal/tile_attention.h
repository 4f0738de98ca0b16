// kernels/cpu/internal/tile_attention.h: the two products of attention of a panel of queries
// (kernels/cpu/query_panel_tier.h) on two-dimensional tile registers. `Tiles` is described in
// tile_gemm.h.
//
// All operands are padded to whole tiles, so one tile configuration serves both products of all
// panels of a block. To configure the tiles takes as long as 15 products of tiles.
#pragma once

#include <cstdint>

#include "kernels/cpu/internal/tile_gemm.h"
#include "kernels/cpu/query_panel_tier.h"

namespace caption::kernels::cpu {

inline constexpr std::int64_t kTileDepth = 2 * kTileRows;  // bf16 elements of a row of a tile

template <class Tiles>
class TilePanelProducts {
 public:
  explicit TilePanelProducts(const PanelBlockArgs& args) : args_(args), tiles_(kBlockTileRows) {}

  void multiply_keys(const std::uint16_t* queries) {
    multiply<false>({.a = bytes_of(args_.keys),
                     .a_stride_bytes = 2 * args_.depth,
                     .b = bytes_of(queries),
                     .num_words = args_.depth / 2},
                    args_.count, args_.scores);
  }
  void multiply_values(float* outputs) {
    const Operands x{.a = bytes_of(args_.values),
                     .a_stride_bytes = 2 * kPanelValueStride,
                     .b = bytes_of(args_.probabilities),
                     .num_words = (args_.count + kTileDepth - 1) / kTileDepth * kTileWords};
    if (args_.is_first) {
      multiply<false>(x, args_.dim, outputs);
    } else {
      multiply<true>(x, args_.dim, outputs);
    }
  }

 private:
  struct Operands {
    const unsigned char* a;  // row after row
    std::int64_t a_stride_bytes;
    const unsigned char* b;  // [num_words, 32, 4 bytes]
    std::int64_t num_words;
  };
  static constexpr std::int64_t kSumsStride = 4 * kPanelQueries;

  static const unsigned char* bytes_of(const std::uint16_t* x) {
    return reinterpret_cast<const unsigned char*>(x);
  }

  // c (+)= a * b^T for m rows, padded to whole tiles.
  template <bool kAdd>
  void multiply(const Operands& x, std::int64_t m, float* c) {
    for (std::int64_t first = 0; first < m; first += kBlockTileRows) {
      const unsigned char* const a = x.a + first * x.a_stride_bytes;
      if (m - first > kTileRows) {
        multiply_rows<kAdd, true>(a, x, c + first * kPanelQueries);
      } else {
        multiply_rows<kAdd, false>(a, x, c + first * kPanelQueries);
      }
    }
  }

  template <bool kAdd, bool kTwoRows>
  void multiply_rows(const unsigned char* a, const Operands& x, float* c) {
    float* const second_sums = c + kTileRows * kPanelQueries;
    begin<kAdd, 0>(c);
    if constexpr (kTwoRows) begin<kAdd, 1>(second_sums);
    const unsigned char* b = x.b;
    const unsigned char* const end = b + x.num_words * kPanelRowBytes;
    TileRows first{.begin = a, .stride_bytes = x.a_stride_bytes};
    TileRows second{.begin = a + kTileRows * x.a_stride_bytes, .stride_bytes = x.a_stride_bytes};
    for (; b != end; b += kTileWords * kPanelRowBytes) {
      dot_step<Tiles, BF16Product, kTwoRows>(tiles_, first, second, b);
      first.begin += kTileBytes;
      second.begin += kTileBytes;
    }
    tiles_.template store<0, 0>(c, kSumsStride);
    tiles_.template store<0, 1>(c + kTileRows, kSumsStride);
    if constexpr (kTwoRows) {
      tiles_.template store<1, 0>(second_sums, kSumsStride);
      tiles_.template store<1, 1>(second_sums + kTileRows, kSumsStride);
    }
  }

  template <bool kAdd, int i>
  void begin(const float* c) {
    if constexpr (kAdd) {
      tiles_.template load_sums<i, 0>(c, kSumsStride);
      tiles_.template load_sums<i, 1>(c + kTileRows, kSumsStride);
    } else {
      tiles_.template zero<i, 0>();
      tiles_.template zero<i, 1>();
    }
  }

  const PanelBlockArgs& args_;
  Tiles tiles_;
};

}  // namespace caption::kernels::cpu
