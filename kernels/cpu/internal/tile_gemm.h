// kernels/cpu/internal/tile_gemm.h: Tier's panel functions on two-dimensional tile registers (AMX),
// as templates over the instructions, so that tests can run them with an emulation in plain loops
// on any CPU.
//
// Layout    a block of at most 32 rows of activations times a panel's 32 features: 2 x 2 tiles of
//           sums, 2 tiles of activations (16 rows x 64 bytes) and 2 of weights (16 rows of 16
//           features; panel rows are 128 bytes apart). With more than 32 rows, K is processed in
//           chunks: 16 KiB of weights stay in the first-level cache while all rows use them, and
//           the sums are kept in c between chunks; meanwhile the next chunk is fetched. Reading
//           both operands from the second-level cache would make its bandwidth the limit; with
//           chunks of 32 KiB, activations that pass through drive weights out of the first level.
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

inline constexpr std::int64_t kTileWords = kTileBytes / 4;         // 4-byte words in a tile's row
inline constexpr std::int64_t kPanelRowBytes = 4 * kPanelColumns;  // 4 bytes of each of 32 features
inline constexpr std::int64_t kBlockTileRows = 2 * kTileRows;
inline constexpr std::int64_t kChunkWords = 128;
inline constexpr std::int64_t kLineBytes = 64;

// At most 16 rows of activations.
struct TileRows {
  const unsigned char* begin = nullptr;
  std::int64_t stride_bytes = 0;  // between rows
  std::int64_t piece_bytes = 0;   // between the pieces of a row, which have 64 bytes each
};

// m rows of activations.
struct ActivationRows {
  const unsigned char* begin = nullptr;
  std::int64_t stride_bytes = 0;  // a_stride
  std::int64_t m = 0;
  bool is_tiled = true;  // the order of kernels/cpu/row_order.h; otherwise row after row
};

// Rows `first`, first + 1, ...; `first` is a multiple of kTileRows. Static, so that each tier's
// file compiles a separate copy with its instruction set.
static inline TileRows tile_at(const ActivationRows& rows, std::int64_t first) {
  const unsigned char* const row = rows.begin + first * rows.stride_bytes;
  if (!rows.is_tiled || rows.m - first < kTileRows) return {row, rows.stride_bytes, kTileBytes};
  return {row, kTileBytes, kTileRows * kTileBytes};
}

// A block of rows of activations and a panel of weights, each `num_words` words of 4 bytes along K;
// a word is a pair of bf16 or four 8-bit integers.
struct TileOperands {
  TileRows first;                    // rows 0 .. 15
  TileRows second;                   // rows 16 .. 31, if there are as many
  const unsigned char* b = nullptr;  // [num_words, 32 features, 4 bytes], from first_word on
  std::int64_t first_word = 0;
  std::int64_t num_words = 0;
};

// Lines of memory that are fetched into the second-level cache during a product.
struct LinesToFetch {
  const unsigned char* begin = nullptr;
  std::int64_t per_step = 0;  // lines per step of 64 bytes along K
};

// `first` and `second` are tiles of activations.
template <class Tiles, class Product, bool kTwoRows>
void dot_step(Tiles& tiles, const TileRows& first, const TileRows& second, const unsigned char* b) {
  tiles.template load_b<0>(b);
  tiles.template load_b<1>(b + kTileBytes);
  tiles.template load_a<0>(first.begin, first.stride_bytes);
  tiles.template dot<0, 0>(Product{});
  tiles.template dot<0, 1>(Product{});
  if constexpr (kTwoRows) {
    tiles.template load_a<1>(second.begin, second.stride_bytes);
    tiles.template dot<1, 0>(Product{});
    tiles.template dot<1, 1>(Product{});
  }
}

// Copies `count` words of each of `num_rows` rows, from word `word` on.
static inline void copy_words(const TileRows& from, std::int64_t word, std::int64_t count,
                              std::int64_t num_rows, unsigned char* to) {
  const unsigned char* row =
      from.begin + word / kTileWords * from.piece_bytes + word % kTileWords * 4;
  for (std::int64_t m = 0; m < num_rows; ++m, row += from.stride_bytes, to += kTileBytes) {
    __builtin_memcpy(to, row, static_cast<unsigned long>(4 * count));
  }
}

// As dot_step() for `count` words from word `word` on, which are less than a piece: the missing
// words are zeros.
template <class Tiles, class Product, bool kTwoRows>
void dot_part(Tiles& tiles, const TileOperands& x, std::int64_t rows, std::int64_t word,
              std::int64_t count, const unsigned char* b) {
  alignas(64) unsigned char a[kBlockTileRows * kTileBytes] = {};
  alignas(64) unsigned char panel[kTileWords * kPanelRowBytes] = {};
  copy_words(x.first, word, count, rows < kTileRows ? rows : kTileRows, a);
  if constexpr (kTwoRows) {
    copy_words(x.second, word, count, rows - kTileRows, a + kTileRows * kTileBytes);
  }
  __builtin_memcpy(panel, b, static_cast<unsigned long>(count * kPanelRowBytes));
  dot_step<Tiles, Product, kTwoRows>(
      tiles, {.begin = a, .stride_bytes = kTileBytes},
      {.begin = a + kTileRows * kTileBytes, .stride_bytes = kTileBytes}, panel);
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
               SumsInTiles sums, LinesToFetch lines) {
  begin_sums<Tiles, 0>(tiles, c, sums.begin);
  if constexpr (kTwoRows) begin_sums<Tiles, 1>(tiles, c, sums.begin);
  const std::int64_t end = x.first_word + x.num_words;
  const unsigned char* b = x.b;
  for (std::int64_t word = x.first_word; word < end;) {
    const std::int64_t left = end - word;
    const std::int64_t in_piece = kTileWords - word % kTileWords;
    const std::int64_t count = left < in_piece ? left : in_piece;
    if (count == kTileWords) {
      const std::int64_t piece = word / kTileWords;
      TileRows first = x.first;
      TileRows second = x.second;
      first.begin += piece * first.piece_bytes;
      second.begin += piece * second.piece_bytes;
      dot_step<Tiles, Product, kTwoRows>(tiles, first, second, b);
    } else {
      dot_part<Tiles, Product, kTwoRows>(tiles, x, rows, word, count, b);
    }
    for (std::int64_t i = 0; i < lines.per_step; ++i, lines.begin += kLineBytes) {
      __builtin_prefetch(lines.begin, 0, 2);
    }
    word += count;
    b += count * kPanelRowBytes;
  }
  if (!sums.store) return;
  end_sums<Tiles, 0>(tiles, c);
  if constexpr (kTwoRows) end_sums<Tiles, 1>(tiles, c);
}

template <class Tiles, class Product>
void tile_product(Tiles& tiles, const TileOperands& x, std::int64_t rows, const TileSums& c,
                  SumsInTiles sums = {}, LinesToFetch lines = {}) {
  if (rows > kTileRows) {
    dot_block<Tiles, Product, true>(tiles, x, rows, c, sums, lines);
  } else {
    dot_block<Tiles, Product, false>(tiles, x, rows, c, sums, lines);
  }
}

// Rows first_row .. end_row - 1 in blocks of `height` rows, which one configuration of the tiles
// serves: to configure them takes as long as 15 products of tiles.
struct RowBlocks {
  std::int64_t first_row, end_row, height;
};

// Calls work(tiles, blocks) for the rows in blocks of 32, then for the rest.
template <class Tiles, class Work>
void for_each_height(std::int64_t m, const Work& work) {
  const std::int64_t whole = m / kBlockTileRows * kBlockTileRows;
  if (whole > 0) {
    Tiles tiles(kBlockTileRows);
    work(tiles, RowBlocks{0, whole, kBlockTileRows});
  }
  if (whole < m) {
    Tiles tiles(m - whole);
    work(tiles, RowBlocks{whole, m, m - whole});
  }
}

struct PanelOperands {
  ActivationRows a;
  const unsigned char* b = nullptr;  // [num_words, 32 features, 4 bytes]
  std::int64_t num_words = 0;
};

// c = a * b^T for some of the m rows and one panel; c begins at row 0.
template <class Tiles, class Product>
void tile_panel(Tiles& tiles, const PanelOperands& x, const RowBlocks& rows, const TileSums& c) {
  const std::int64_t num_blocks = (rows.end_row - rows.first_row) / rows.height;
  const std::int64_t chunk = num_blocks > 1 ? kChunkWords : x.num_words;
  // While a chunk is multiplied by all rows, the next one is fetched; the last one of a panel is
  // followed by the next panel or by memory that nothing is read from.
  constexpr std::int64_t kChunkLines = kChunkWords * kPanelRowBytes / kLineBytes;
  constexpr std::int64_t kChunkSteps = kChunkWords / kTileWords;
  const std::int64_t steps = num_blocks * kChunkSteps;
  const std::int64_t lines_per_step = num_blocks > 1 ? (kChunkLines + steps - 1) / steps : 0;
  std::int64_t word = 0;
  do {
    const std::int64_t left = x.num_words - word;
    const std::int64_t count = left < chunk ? left : chunk;
    const unsigned char* const b = x.b + word * kPanelRowBytes;
    const unsigned char* next = b + count * kPanelRowBytes;
    for (std::int64_t m = rows.first_row; m < rows.end_row; m += rows.height) {
      tile_product<Tiles, Product>(
          tiles,
          {.first = tile_at(x.a, m),
           .second = tile_at(x.a, m + kTileRows),
           .b = b,
           .first_word = word,
           .num_words = count},
          rows.height, {.begin = c.begin + m * c.stride_bytes, .stride_bytes = c.stride_bytes},
          {.begin = word > 0 ? Begin::kLoad : Begin::kZero},
          {.begin = next, .per_step = lines_per_step});
      next += kChunkSteps * lines_per_step * kLineBytes;
    }
    word += count;
  } while (word < x.num_words);
}

// Implements Tier::panel_gemm.
template <class Tiles>
void tile_panel_gemm(const PanelArgs& args) {
  const std::int64_t panel_elements = args.num_pairs * 2 * kPanelColumns;
  for_each_height<Tiles>(args.m, [&](Tiles& tiles, const RowBlocks& rows) {
    for (std::int64_t panel = 0; panel < args.num_panels; ++panel) {
      tile_panel<Tiles, BF16Product>(
          tiles,
          {.a = {.begin = reinterpret_cast<const unsigned char*>(args.a),
                 .stride_bytes = 2 * args.a_stride,
                 .m = args.m,
                 .is_tiled = args.has_tiled_rows},
           .b = reinterpret_cast<const unsigned char*>(args.panels + panel * panel_elements),
           .num_words = args.num_pairs},
          rows,
          {.begin = reinterpret_cast<unsigned char*>(args.c + panel * kPanelColumns),
           .stride_bytes = 4 * args.c_stride});
    }
  });
}

// Implements Tier::panel8a8.
template <class Tiles>
void tile_panel8a8(const IntegerArgs& args) {
  for_each_height<Tiles>(args.m, [&](Tiles& tiles, const RowBlocks& rows) {
    tile_panel<Tiles, IntegerProduct>(
        tiles,
        {.a = {.begin = reinterpret_cast<const unsigned char*>(args.a),
               .stride_bytes = args.a_stride,
               .m = args.m},
         .b = args.panel,
         .num_words = args.num_quads},
        rows,
        {.begin = reinterpret_cast<unsigned char*>(args.c), .stride_bytes = 4 * args.c_stride});
  });
}

// Implements Tier::panel8, panel4 and panel_e4m3: expand(pair, to) writes the 64 bf16 weights of a
// pair of columns; add(group, m0, num_rows, sums) receives the 32 sums of each of the rows from m0
// on over a group.
template <class Tiles, class Expand, class Add>
void tile_quantised(const QuantisedArgs& args, const Expand& expand, const Add& add) {
  alignas(64) std::uint16_t expanded[kMaxGroupPairs * 2 * kPanelColumns];
  alignas(64) float sums[kBlockTileRows * kPanelColumns];
  const ActivationRows a{.begin = reinterpret_cast<const unsigned char*>(args.a),
                         .stride_bytes = 2 * args.a_stride,
                         .m = args.m};
  for_each_height<Tiles>(args.m, [&](Tiles& tiles, const RowBlocks& rows) {
    std::int64_t group = 0;
    for (std::int64_t pair = 0; pair < args.num_pairs; pair += args.group_pairs, ++group) {
      const std::int64_t left = args.num_pairs - pair;
      const std::int64_t count = left < args.group_pairs ? left : args.group_pairs;
      for (std::int64_t i = 0; i < count; ++i) expand(pair + i, expanded + i * 2 * kPanelColumns);
      for (std::int64_t m = rows.first_row; m < rows.end_row; m += rows.height) {
        tile_product<Tiles, BF16Product>(
            tiles,
            {.first = tile_at(a, m),
             .second = tile_at(a, m + kTileRows),
             .b = reinterpret_cast<const unsigned char*>(expanded),
             .first_word = pair,
             .num_words = count},
            rows.height,
            {.begin = reinterpret_cast<unsigned char*>(sums), .stride_bytes = 4 * kPanelColumns});
        add(group, m, rows.height, sums);
      }
    }
  });
}

// Implements Tier::panel4a8: widen(group, panel) writes the codes of a group as weights of 8 bits.
// A single block of rows is multiplied group by group, and its sums stay in the tile registers;
// several are multiplied by as many groups as a chunk of the first-level cache holds.
template <class Tiles, class Widen>
void tile_panel4a8(const Integer4Args& args, const Widen& widen) {
  constexpr std::int64_t kChunkGroups = kChunkWords / kMaxGroupQuads;
  alignas(64) std::uint8_t panel[kChunkWords * kPanelRowBytes];
  const ActivationRows a{.begin = reinterpret_cast<const unsigned char*>(args.a),
                         .stride_bytes = args.a_stride,
                         .m = args.m};
  for_each_height<Tiles>(args.m, [&](Tiles& tiles, const RowBlocks& rows) {
    const bool is_single = rows.end_row - rows.first_row == rows.height;
    const std::int64_t chunk_groups = is_single ? 1 : kChunkGroups;
    std::int64_t first = 0;  // first quad of the chunk
    for_each_quad_group(args, [&](const QuadGroup& group) {
      widen(group, panel + (group.first_quad - first) * kPanelRowBytes);
      const bool is_last = group.end_quad == args.num_quads;
      if (!is_last && (group.index + 1) % chunk_groups != 0) return;
      for (std::int64_t m = rows.first_row; m < rows.end_row; m += rows.height) {
        const TileOperands x{.first = tile_at(a, m),
                             .second = tile_at(a, m + kTileRows),
                             .b = panel,
                             .first_word = first,
                             .num_words = group.end_quad - first};
        const TileSums c{.begin = reinterpret_cast<unsigned char*>(args.c + m * args.c_stride),
                         .stride_bytes = 4 * args.c_stride};
        const Begin begin = first == 0 ? Begin::kZero : is_single ? Begin::kKeep : Begin::kLoad;
        tile_product<Tiles, IntegerProduct>(tiles, x, rows.height, c,
                                            {.begin = begin, .store = !is_single || is_last});
      }
      first = group.end_quad;
    });
  });
}

}  // namespace caption::kernels::cpu
