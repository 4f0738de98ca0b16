// Packing the rows of a panel: words of 16 rows by 16 columns are transposed in registers, and
// codes that share bytes are put together after that.
#include "kernels/cpu/avx512bf16/pack.h"

#include <immintrin.h>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kTileBytes = 64;
constexpr int kHalf = 16;  // rows of half a panel
// The processor's prefetchers follow fewer streams than a panel has rows.
constexpr std::int64_t kPrefetchBytes = 512;

// Exchanges rows and columns of 16 x 16 words of 4 bytes. A call would bring them through memory.
[[gnu::always_inline]] inline void transpose(__m512i (&r)[kHalf]) {
  __m512i t[kHalf];
  for (int i = 0; i < kHalf; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < kHalf; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    const __m512i b = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xDD);
    const __m512i c = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    const __m512i d = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xDD);
    t[i] = _mm512_shuffle_i32x4(a, c, 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
    t[i + 8] = _mm512_shuffle_i32x4(a, c, 0xDD);
    t[i + 12] = _mm512_shuffle_i32x4(b, d, 0xDD);
  }
  for (int i = 0; i < kHalf; ++i) r[i] = t[i];
}

// words[i] = word i of the tiles of 16 rows.
[[gnu::always_inline]] inline void load_transposed(const std::uint8_t* const* rows, std::int64_t at,
                                                   __m512i (&words)[kHalf]) {
  for (int i = 0; i < kHalf; ++i) {
    const std::uint8_t* const from = rows[i] + at;
    _mm_prefetch(reinterpret_cast<const char*>(from + kPrefetchBytes), _MM_HINT_T0);
    words[i] = _mm512_loadu_si512(from);
  }
  transpose(words);
}

// Calls tile(first, last, at, to) for the whole tiles of 32 rows of `row_bytes` bytes: the
// transposed words of the first and the last 16 rows, which begin at byte `at`. A tile is written
// to `tile_to_bytes` bytes. Returns the bytes of a row that are done: none if a row is missing.
template <class Tile>
std::int64_t over_tiles(const PanelRowsArgs& args, std::int64_t row_bytes,
                        std::int64_t tile_to_bytes, const Tile& tile) {
  for (std::int64_t n = 0; n < kPanelColumns; ++n) {
    if (args.rows[n] == nullptr) return 0;
  }
  auto* to = static_cast<std::uint8_t*>(args.to);
  std::int64_t at = 0;
  for (; at + kTileBytes <= row_bytes; at += kTileBytes, to += tile_to_bytes) {
    __m512i first[kHalf];
    __m512i last[kHalf];
    load_transposed(args.rows, at, first);
    load_transposed(args.rows + kHalf, at, last);
    tile(first, last, to);
  }
  return at;
}

// The arguments for what is behind `done` bytes of each row.
class Rest {
 public:
  Rest(const PanelRowsArgs& args, std::int64_t done, std::int64_t done_length, std::int64_t done_to)
      : args_(args) {
    for (std::int64_t n = 0; n < kPanelColumns; ++n) {
      rows_[n] = args.rows[n] == nullptr ? nullptr : args.rows[n] + done;
    }
    args_.rows = rows_;
    args_.length -= done_length;
    args_.to = static_cast<std::uint8_t*>(args.to) + done_to;
  }
  const PanelRowsArgs& args() const { return args_; }

 private:
  const std::uint8_t* rows_[kPanelColumns];
  PanelRowsArgs args_;
};

struct alignas(64) ByteIndex {
  std::uint8_t at[64];
};

// The byte of feature n and column 2 * p + c among those of the even columns (c = 0) and of the odd
// ones, which follow them (as _mm512_permutex2var_epi8() counts): each has four columns of a
// feature in a word.
constexpr std::uint8_t merged_byte(int n, int p, int c) {
  return static_cast<std::uint8_t>(64 * c + 4 * n + p);
}

// The bytes of the column pairs `pair` and `pair` + 1, as panel4_position() orders them.
constexpr ByteIndex pair_index(int pair) {
  ByteIndex index{};
  for (int i = 0; i < 64; ++i) index.at[i] = merged_byte(i % 32 / 2, pair + i / 32, i % 2);
  return index;
}

// The bytes of the four columns from `pair` on, as quad4_position() orders them.
constexpr ByteIndex quad_index(int pair) {
  ByteIndex index{};
  for (int i = 0; i < 64; ++i) index.at[i] = merged_byte(i / 4, pair + i % 4 / 2, i % 2);
  return index;
}

// Writes the codes of 8 columns of 32 features, of which each word of `first` and `last` holds
// those of one feature: 128 bytes, in the order of two indices.
void store_merged(__m512i first, __m512i last, const ByteIndex (&order)[2], std::uint8_t* to) {
  const __m512i low = _mm512_set1_epi8(0x0F);
  // (low & a) | (~low & b), for each bit.
  constexpr int kSelect = 0xCA;
  const __m512i even = _mm512_ternarylogic_epi32(low, first, _mm512_slli_epi32(last, 4), kSelect);
  const __m512i odd = _mm512_ternarylogic_epi32(low, _mm512_srli_epi32(first, 4), last, kSelect);
  for (int i = 0; i < 2; ++i) {
    const __m512i index = _mm512_load_si512(order[i].at);
    _mm512_storeu_si512(to + i * 64, _mm512_permutex2var_epi8(even, index, odd));
  }
}

constexpr ByteIndex kPairs[2] = {pair_index(0), pair_index(2)};
constexpr ByteIndex kQuads[2] = {quad_index(0), quad_index(2)};

// Packs whole tiles of 4-bit codes; returns the columns that are done.
std::int64_t pack_merged(const PanelRowsArgs& args, const ByteIndex (&order)[2]) {
  constexpr std::int64_t kWordTo = 128;  // bytes that 8 columns become
  const std::int64_t done =
      over_tiles(args, args.length / 2, kHalf * kWordTo,
                 [&](const __m512i(&first)[kHalf], const __m512i(&last)[kHalf], std::uint8_t* to) {
                   for (int i = 0; i < kHalf; ++i)
                     store_merged(first[i], last[i], order, to + i * kWordTo);
                 });
  return 2 * done;
}

}  // namespace

void pack_dwords_avx512bf16(const PanelRowsArgs& args) {
  const __m512i flips = _mm512_set1_epi32(static_cast<int>(args.flipped));
  constexpr std::int64_t kWordTo = 4 * kPanelColumns;
  const std::int64_t done =
      over_tiles(args, args.length, kHalf * kWordTo,
                 [&](const __m512i(&first)[kHalf], const __m512i(&last)[kHalf], std::uint8_t* to) {
                   for (int i = 0; i < kHalf; ++i) {
                     _mm512_storeu_si512(to + i * kWordTo, _mm512_xor_si512(first[i], flips));
                     _mm512_storeu_si512(to + i * kWordTo + 64, _mm512_xor_si512(last[i], flips));
                   }
                 });
  if (done < args.length) {
    pack_dwords_reference(Rest(args, done, done, done * kPanelColumns).args());
  }
}

void pack_words_avx512bf16(const PanelRowsArgs& args) {
  alignas(64) std::uint16_t low_halves[32];
  for (int n = 0; n < 32; ++n) low_halves[n] = static_cast<std::uint16_t>(2 * n);
  const __m512i low = _mm512_load_si512(low_halves);
  const __m512i high = _mm512_or_si512(low, _mm512_set1_epi16(1));
  constexpr std::int64_t kWordTo = 4 * kPanelColumns;
  const std::int64_t done = over_tiles(
      args, args.length, kHalf * kWordTo,
      [&](const __m512i(&first)[kHalf], const __m512i(&last)[kHalf], std::uint8_t* to) {
        for (int i = 0; i < kHalf; ++i) {
          _mm512_storeu_si512(to + i * kWordTo, _mm512_permutex2var_epi16(first[i], low, last[i]));
          _mm512_storeu_si512(to + i * kWordTo + 64,
                              _mm512_permutex2var_epi16(first[i], high, last[i]));
        }
      });
  if (done < args.length) {
    pack_words_reference(Rest(args, done, done, done * kPanelColumns).args());
  }
}

void pack_nibbles_avx512bf16(const PanelRowsArgs& args) {
  const std::int64_t done = pack_merged(args, kPairs);
  if (done < args.length) {
    pack_nibbles_reference(Rest(args, done / 2, done, done * kHalf).args());
  }
}

void pack_nibble_quads_avx512bf16(const PanelRowsArgs& args) {
  const std::int64_t done = pack_merged(args, kQuads);
  if (done < args.length) {
    pack_nibble_quads_reference(Rest(args, done / 2, done, done * kHalf).args());
  }
}

}  // namespace caption::kernels::cpu
