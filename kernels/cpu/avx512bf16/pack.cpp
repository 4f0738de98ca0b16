// Packing the rows of a panel: words of 16 rows by 16 columns are transposed in registers, and
// codes that share bytes are put together after that.
#include "kernels/cpu/avx512bf16/pack.h"

#include <immintrin.h>

#include "kernels/cpu/avx512bf16/transpose.h"
#include "kernels/cpu/internal/panel_rest.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kTileBytes = 64;

// words[i] = word i of the tiles of 16 rows.
[[gnu::always_inline]] inline void load_transposed(const std::uint8_t* const* rows, std::int64_t at,
                                                   std::int64_t ahead, __m512i (&words)[kHalf]) {
  for (int i = 0; i < kHalf; ++i) {
    const std::uint8_t* const from = rows[i] + at;
    _mm_prefetch(reinterpret_cast<const char*>(from + ahead), _MM_HINT_T0);
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
    const std::int64_t ahead = bytes_ahead(args.rows, row_bytes, at, 1);
    load_transposed(args.rows, at, ahead, first);
    load_transposed(args.rows + kHalf, at, ahead, last);
    tile(first, last, to);
  }
  finish_lines();
  return at;
}

constexpr ByteIndex kPairs[2] = {pair_index(0), pair_index(2)};
constexpr ByteIndex kPairsOddFirst[2] = {pair_index(0, 1), pair_index(2, 1)};
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
                     store_line(to + i * kWordTo, _mm512_xor_si512(first[i], flips));
                     store_line(to + i * kWordTo + 64, _mm512_xor_si512(last[i], flips));
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
          store_line(to + i * kWordTo, _mm512_permutex2var_epi16(first[i], low, last[i]));
          store_line(to + i * kWordTo + 64, _mm512_permutex2var_epi16(first[i], high, last[i]));
        }
      });
  if (done < args.length) {
    pack_words_reference(Rest(args, done, done, done * kPanelColumns).args());
  }
}

void pack_nibbles_avx512bf16(const PanelRowsArgs& args) {
  const std::int64_t done = pack_merged(args, args.has_odd_first ? kPairsOddFirst : kPairs);
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
