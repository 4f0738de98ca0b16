// kernels/cpu/internal/tile_gemm.h: Tier's panel functions on two-dimensional tile registers (AMX),
// as templates over the instructions, so that tests can run them with an emulation in plain loops
// on any CPU.
//
// Layout    a block of at most 32 rows of activations times a panel's 32 features: 2 x 2 tiles of
//           sums, 2 tiles of activations (16 rows x 64 bytes) and 2 of weights (16 rows of 16
//           features; panel rows are 128 bytes apart). With more than 32 rows, K is processed in
//           chunks: 32 KiB of weights stay in the first-level cache while all rows use them, and
//           the sums are kept in c between chunks. Reading both operands from the second-level
//           cache would make its bandwidth the limit.
// Numerics  a row's sums run over K in steps of 64 bytes, independent of the other rows; the last
//           step is padded with zeros.
//
// `Tiles` has, for i, j in {0, 1}:
//   Tiles(rows)                 configures: blocks of rows <= 32 rows
//   zero<i, j>(), load_sums<i, j>(from, stride_bytes), store<i, j>(to, stride_bytes)
//                                                        sums [rows of i, 16] f32 or i32
//   load_a<i>(from, stride_bytes), load_b<j>(from)       from panels: rows 128 bytes apart
//   dot<i, j>(BF16Product{}) or dot<i, j>(IntegerProduct{})
#pragma once

#include <cstdint>

#include "kernels/cpu/internal/quad_groups.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

struct BF16Product {};     // pairs of bf16, sums f32
struct IntegerProduct {};  // quadruples of i8 times u8, sums i32

inline constexpr std::int64_t kTileRows = 16;
inline constexpr std::int64_t kTileBytes = 64;  // bytes of a tile row of activations or weights
inline constexpr std::int64_t kPanelRowBytes = 4 * kPanelColumns;  // 4 bytes of each of 32 features
inline constexpr std::int64_t kBlockTileRows = 2 * kTileRows;
inline constexpr std::int64_t kChunkWords = 256;

// Activations and a panel of weights, each `num_words` words of 4 bytes along K; a word is a pair
// of bf16 or four 8-bit integers.
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

// Sums in memory, [rows, 32] words of 4 bytes.
struct TileSums {
  unsigned char* begin;
  std::int64_t stride_bytes;
};

// Where a product's sums begin, and whether they are stored at its end.
enum class Begin { kZero, kLoad, kKeep };
struct SumsInTiles {
  Begin begin = Begin::kZero;
  bool store = true;
};

template <class Tiles, int i>
void begin_sums(Tiles& tiles, const TileSums& c, Begin begin) {
  if (begin == Begin::kKeep) return;
  if (begin == Begin::kZero) {
    tiles.template zero<i, 0>();
    tiles.template zero<i, 1>();
    return;
  }
  const unsigned char* const from = c.begin + i * kTileRows * c.stride_bytes;
  tiles.template load_sums<i, 0>(from, c.stride_bytes);
  tiles.template load_sums<i, 1>(from + kTileBytes, c.stride_bytes);
}

template <class Tiles, int i>
void end_sums(Tiles& tiles, const TileSums& c) {
  unsigned char* const to = c.begin + i * kTileRows * c.stride_bytes;
  tiles.template store<i, 0>(to, c.stride_bytes);
  tiles.template store<i, 1>(to + kTileBytes, c.stride_bytes);
}

// c = a * b^T, or c += a * b^T, for one block of rows; kTwoRows means that it has more than 16
// rows.
template <class Tiles, class Product, bool kTwoRows>
void dot_block(Tiles& tiles, const TileOperands& x, std::int64_t rows, const TileSums& c,
               SumsInTiles sums) {
  begin_sums<Tiles, 0>(tiles, c, sums.begin);
  if constexpr (kTwoRows) begin_sums<Tiles, 1>(tiles, c, sums.begin);
  std::int64_t word = 0;
  for (; word + kTileRows <= x.num_words; word += kTileRows) {
    dot_step<Tiles, Product, kTwoRows>(tiles, x.a + 4 * word, x.a_stride_bytes,
                                       x.b + word * kPanelRowBytes);
  }
  if (word < x.num_words) {
    // Neither the activations nor the weights may be read beyond K, so both are copied and padded.
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
  if (!sums.store) return;
  end_sums<Tiles, 0>(tiles, c);
  if constexpr (kTwoRows) end_sums<Tiles, 1>(tiles, c);
}

// Calls work(tiles, first_row, rows) for blocks of at most 32 rows that cover m rows.
template <class Tiles, class Work>
void for_each_tile_block(std::int64_t m, const Work& work) {
  for (std::int64_t first = 0; first < m;) {
    const std::int64_t left = m - first;
    const std::int64_t rows = left < kBlockTileRows ? left : kBlockTileRows;
    Tiles tiles(rows);
    // Consecutive blocks of 32 rows share one tile configuration.
    do {
      work(tiles, first, rows);
      first += rows;
    } while (m - first >= rows && rows == kBlockTileRows);
  }
}

template <class Tiles, class Product>
void tile_product(Tiles& tiles, const TileOperands& x, std::int64_t rows, const TileSums& c,
                  SumsInTiles sums = {}) {
  if (rows > kTileRows) {
    dot_block<Tiles, Product, true>(tiles, x, rows, c, sums);
  } else {
    dot_block<Tiles, Product, false>(tiles, x, rows, c, sums);
  }
}

// c = a * b^T for m rows and one panel.
template <class Tiles, class Product>
void tile_panel(const TileOperands& x, std::int64_t m, const TileSums& c) {
  const std::int64_t chunk = m > kBlockTileRows ? kChunkWords : x.num_words;
  std::int64_t word = 0;
  do {
    const std::int64_t left = x.num_words - word;
    const std::int64_t count = left < chunk ? left : chunk;
    for_each_tile_block<Tiles>(m, [&](Tiles& tiles, std::int64_t first, std::int64_t rows) {
      const TileOperands part{.a = x.a + first * x.a_stride_bytes + 4 * word,
                              .a_stride_bytes = x.a_stride_bytes,
                              .b = x.b + word * kPanelRowBytes,
                              .num_words = count};
      tile_product<Tiles, Product>(
          tiles, part, rows,
          {.begin = c.begin + first * c.stride_bytes, .stride_bytes = c.stride_bytes},
          {.begin = word > 0 ? Begin::kLoad : Begin::kZero});
    });
    word += count;
  } while (word < x.num_words);
}

// Implements Tier::panel_gemm.
template <class Tiles>
void tile_panel_gemm(const PanelArgs& args) {
  const std::int64_t panel_elements = args.num_pairs * 2 * kPanelColumns;
  for (std::int64_t panel = 0; panel < args.num_panels; ++panel) {
    tile_panel<Tiles, BF16Product>(
        {.a = reinterpret_cast<const unsigned char*>(args.a),
         .a_stride_bytes = 2 * args.a_stride,
         .b = reinterpret_cast<const unsigned char*>(args.panels + panel * panel_elements),
         .num_words = args.num_pairs},
        args.m,
        {.begin = reinterpret_cast<unsigned char*>(args.c + panel * kPanelColumns),
         .stride_bytes = 4 * args.c_stride});
  }
}

// Implements Tier::panel8a8.
template <class Tiles>
void tile_panel8a8(const IntegerArgs& args) {
  tile_panel<Tiles, IntegerProduct>(
      {.a = reinterpret_cast<const unsigned char*>(args.a),
       .a_stride_bytes = args.a_stride,
       .b = args.panel,
       .num_words = args.num_quads},
      args.m,
      {.begin = reinterpret_cast<unsigned char*>(args.c), .stride_bytes = 4 * args.c_stride});
}

// Calls work(tiles, first_row, end_row, height) for the rows in blocks of 32, then for the rest:
// each time one tile configuration serves all blocks.
template <class Tiles, class Work>
void for_each_height(std::int64_t m, const Work& work) {
  const std::int64_t whole = m / kBlockTileRows * kBlockTileRows;
  if (whole > 0) {
    Tiles tiles(kBlockTileRows);
    work(tiles, std::int64_t{0}, whole, kBlockTileRows);
  }
  if (whole < m) {
    Tiles tiles(m - whole);
    work(tiles, whole, m, m - whole);
  }
}

// Implements Tier::panel8 and panel4: expand(pair, to) writes the 64 bf16 weights of a pair of
// columns; add(group, m, sums) receives the 32 sums of row m over a group.
template <class Tiles, class Expand, class Add>
void tile_quantised(const QuantisedArgs& args, const Expand& expand, const Add& add) {
  alignas(64) std::uint16_t expanded[kMaxGroupPairs * 2 * kPanelColumns];
  alignas(64) float sums[kBlockTileRows * kPanelColumns];
  for_each_height<Tiles>(args.m, [&](Tiles& tiles, std::int64_t first_row, std::int64_t end_row,
                                     std::int64_t height) {
    std::int64_t group = 0;
    for (std::int64_t pair = 0; pair < args.num_pairs; pair += args.group_pairs, ++group) {
      const std::int64_t left = args.num_pairs - pair;
      const std::int64_t count = left < args.group_pairs ? left : args.group_pairs;
      for (std::int64_t i = 0; i < count; ++i) expand(pair + i, expanded + i * 2 * kPanelColumns);
      for (std::int64_t m = first_row; m < end_row; m += height) {
        tile_product<Tiles, BF16Product>(
            tiles,
            {.a = reinterpret_cast<const unsigned char*>(args.a + m * args.a_stride + 2 * pair),
             .a_stride_bytes = 2 * args.a_stride,
             .b = reinterpret_cast<const unsigned char*>(expanded),
             .num_words = count},
            height,
            {.begin = reinterpret_cast<unsigned char*>(sums), .stride_bytes = 4 * kPanelColumns});
        for (std::int64_t r = 0; r < height; ++r) add(group, m + r, sums + r * kPanelColumns);
      }
    }
  });
}

// Implements Tier::panel4a8: widen(group, panel) writes the codes of a group as weights of 8 bits.
// The sums of a single block of rows stay in the tile registers.
template <class Tiles, class Widen>
void tile_panel4a8(const Integer4Args& args, const Widen& widen) {
  alignas(64) std::uint8_t panel[kMaxGroupQuads * 4 * kPanelColumns];
  for_each_height<Tiles>(
      args.m, [&](Tiles& tiles, std::int64_t first_row, std::int64_t end_row, std::int64_t height) {
        const bool is_single = end_row - first_row == height;
        for_each_quad_group(args, [&](const QuadGroup& group) {
          widen(group, panel);
          const bool is_last = group.end_quad == args.num_quads;
          for (std::int64_t m = first_row; m < end_row; m += height) {
            const TileOperands x{.a = reinterpret_cast<const unsigned char*>(
                                     args.a + m * args.a_stride + 4 * group.first_quad),
                                 .a_stride_bytes = args.a_stride,
                                 .b = panel,
                                 .num_words = group.end_quad - group.first_quad};
            const TileSums c{.begin = reinterpret_cast<unsigned char*>(args.c + m * args.c_stride),
                             .stride_bytes = 4 * args.c_stride};
            const SumsInTiles sums{.begin = is_single && group.index > 0 ? Begin::kKeep
                                            : group.index > 0            ? Begin::kLoad
                                                                         : Begin::kZero,
                                   .store = !is_single || is_last};
            tile_product<Tiles, IntegerProduct>(tiles, x, height, c, sums);
          }
        });
      });
}

}  // namespace caption::kernels::cpu
