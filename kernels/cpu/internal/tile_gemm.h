// kernels/cpu/internal/tile_gemm.h: Tier's panel functions on two-dimensional tile registers (AMX),
// written once for the instructions and for a model of them in plain loops that tests run anywhere.
//
// Layout    a block of at most 32 rows of activations times a panel's 32 features: 2 x 2 tiles of
//           sums, 2 of activations (16 rows x 64 bytes) and 2 of weights (16 rows of 16 features,
//           as panels lie: 128 bytes apart).
// Numerics  a row's sums run over K in steps of 64 bytes, whatever its neighbours: the last step is
//           filled up with zeros.
//
// `Tiles` has, for i, j in {0, 1}:
//   Tiles(rows)                 configures: blocks of rows <= 32 rows
//   zero<i, j>(), store<i, j>(to, stride_bytes)          sums [rows of i, 16] f32 or i32
//   load_a<i>(from, stride_bytes), load_b<j>(from)       from panels: rows 128 bytes apart
//   dot<i, j>(BF16Product{}) or dot<i, j>(IntegerProduct{})
#pragma once

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

struct BF16Product {};     // pairs of bf16, sums f32
struct IntegerProduct {};  // quadruples of i8 times u8, sums i32

inline constexpr std::int64_t kTileRows = 16;
inline constexpr std::int64_t kTileBytes = 64;  // of a row, of activations or weights
inline constexpr std::int64_t kPanelRowBytes = 4 * kPanelColumns;  // a step's 32 features
inline constexpr std::int64_t kBlockTileRows = 2 * kTileRows;

// Activations and a panel of weights of `num_words` words of 4 bytes (pairs of bf16, quadruples of
// bytes) along K.
struct TileOperands {
  const unsigned char* a;
  std::int64_t a_stride_bytes;
  const unsigned char* b;  // [num_words, 32 features, 4 bytes]
  std::int64_t num_words;
};

template <class Tiles, class Product, bool kTwoRows>
void dot_step(Tiles& tiles, const unsigned char* a, std::int64_t a_stride, const unsigned char* b) {
  tiles.template load_b<0>(b);
  tiles.template load_b<1>(b + kTileBytes);
  tiles.template load_a<0>(a, a_stride);
  tiles.template dot<0, 0>(Product{});
  tiles.template dot<0, 1>(Product{});
  if constexpr (kTwoRows) {
    tiles.template load_a<1>(a + kTileRows * a_stride, a_stride);
    tiles.template dot<1, 0>(Product{});
    tiles.template dot<1, 1>(Product{});
  }
}

// c [rows, 32] words of 4 bytes = a * b^T for one block of rows; kTwoRows: more than 16 of them.
template <class Tiles, class Product, bool kTwoRows>
void dot_block(Tiles& tiles, const TileOperands& x, std::int64_t rows, void* c,
               std::int64_t c_stride_bytes) {
  tiles.template zero<0, 0>();
  tiles.template zero<0, 1>();
  if constexpr (kTwoRows) {
    tiles.template zero<1, 0>();
    tiles.template zero<1, 1>();
  }
  std::int64_t word = 0;
  for (; word + kTileRows <= x.num_words; word += kTileRows) {
    dot_step<Tiles, Product, kTwoRows>(tiles, x.a + 4 * word, x.a_stride_bytes,
                                       x.b + word * kPanelRowBytes);
  }
  if (word < x.num_words) {
    // Neither the activations nor the weights may be read beyond K: both are padded.
    alignas(64) unsigned char a[kBlockTileRows * kTileBytes] = {};
    alignas(64) unsigned char b[kTileRows * kPanelRowBytes] = {};
    const std::int64_t rest = x.num_words - word;
    for (std::int64_t m = 0; m < rows; ++m) {
      __builtin_memcpy(a + m * kTileBytes, x.a + m * x.a_stride_bytes + 4 * word,
                       static_cast<unsigned long>(4 * rest));
    }
    __builtin_memcpy(b, x.b + word * kPanelRowBytes,
                     static_cast<unsigned long>(rest * kPanelRowBytes));
    dot_step<Tiles, Product, kTwoRows>(tiles, a, kTileBytes, b);
  }
  auto* const to = static_cast<unsigned char*>(c);
  tiles.template store<0, 0>(to, c_stride_bytes);
  tiles.template store<0, 1>(to + kTileBytes, c_stride_bytes);
  if constexpr (kTwoRows) {
    tiles.template store<1, 0>(to + kTileRows * c_stride_bytes, c_stride_bytes);
    tiles.template store<1, 1>(to + kTileRows * c_stride_bytes + kTileBytes, c_stride_bytes);
  }
}

// work(tiles, first_row, rows) for blocks of at most 32 of m rows.
template <class Tiles, class Work>
void for_each_tile_block(std::int64_t m, const Work& work) {
  for (std::int64_t first = 0; first < m;) {
    const std::int64_t left = m - first;
    const std::int64_t rows = left < kBlockTileRows ? left : kBlockTileRows;
    Tiles tiles(rows);
    // As many equal blocks as there are share one configuration.
    do {
      work(tiles, first, rows);
      first += rows;
    } while (m - first >= rows && rows == kBlockTileRows);
  }
}

template <class Tiles, class Product>
void tile_product(Tiles& tiles, const TileOperands& x, std::int64_t rows, void* c,
                  std::int64_t c_stride_bytes) {
  if (rows > kTileRows) {
    dot_block<Tiles, Product, true>(tiles, x, rows, c, c_stride_bytes);
  } else {
    dot_block<Tiles, Product, false>(tiles, x, rows, c, c_stride_bytes);
  }
}

// Tier::panel_gemm. A panel stays in the second-level cache while the rows pass by.
template <class Tiles>
void tile_panel_gemm(const PanelArgs& args) {
  for_each_tile_block<Tiles>(args.m, [&](Tiles& tiles, std::int64_t first, std::int64_t rows) {
    for (std::int64_t panel = 0; panel < args.num_panels; ++panel) {
      const TileOperands x{
          .a = reinterpret_cast<const unsigned char*>(args.a + first * args.a_stride),
          .a_stride_bytes = 2 * args.a_stride,
          .b = reinterpret_cast<const unsigned char*>(args.panels +
                                                      panel * args.num_pairs * 2 * kPanelColumns),
          .num_words = args.num_pairs};
      tile_product<Tiles, BF16Product>(tiles, x, rows,
                                       args.c + first * args.c_stride + panel * kPanelColumns,
                                       4 * args.c_stride);
    }
  });
}

// Tier::panel8a8.
template <class Tiles>
void tile_panel8a8(const IntegerArgs& args) {
  for_each_tile_block<Tiles>(args.m, [&](Tiles& tiles, std::int64_t first, std::int64_t rows) {
    const TileOperands x{
        .a = reinterpret_cast<const unsigned char*>(args.a + first * args.a_stride),
        .a_stride_bytes = args.a_stride,
        .b = args.panel,
        .num_words = args.num_quads};
    tile_product<Tiles, IntegerProduct>(tiles, x, rows, args.c + first * args.c_stride,
                                        4 * args.c_stride);
  });
}

// Tier::panel8 and panel4: expand(pair, to) writes the 64 bf16 of a pair; add(group, m, sums) takes
// the 32 sums of row m over a group.
template <class Tiles, class Expand, class Add>
void tile_quantised(const QuantisedArgs& args, const Expand& expand, const Add& add) {
  alignas(64) std::uint16_t expanded[kMaxGroupPairs * 2 * kPanelColumns];
  alignas(64) float sums[kBlockTileRows * kPanelColumns];
  std::int64_t group = 0;
  for (std::int64_t pair = 0; pair < args.num_pairs; pair += args.group_pairs, ++group) {
    const std::int64_t left = args.num_pairs - pair;
    const std::int64_t count = left < args.group_pairs ? left : args.group_pairs;
    for (std::int64_t i = 0; i < count; ++i) expand(pair + i, expanded + i * 2 * kPanelColumns);
    for_each_tile_block<Tiles>(args.m, [&](Tiles& tiles, std::int64_t first, std::int64_t rows) {
      const TileOperands x{
          .a = reinterpret_cast<const unsigned char*>(args.a + first * args.a_stride + 2 * pair),
          .a_stride_bytes = 2 * args.a_stride,
          .b = reinterpret_cast<const unsigned char*>(expanded),
          .num_words = count};
      tile_product<Tiles, BF16Product>(tiles, x, rows, sums, 4 * kPanelColumns);
      for (std::int64_t r = 0; r < rows; ++r) add(group, first + r, sums + r * kPanelColumns);
    });
  }
}

}  // namespace caption::kernels::cpu
