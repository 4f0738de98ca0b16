// Packing the rows of a panel: words of eight rows are transposed in registers, and codes that
// share bytes are put together after that.
#include "kernels/cpu/avx2/pack.h"

#include <immintrin.h>

#include "kernels/cpu/avx2/panel_lines.h"
#include "kernels/cpu/internal/panel_rest.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kTileTo = kPanelColumns * kLineBytes;  // bytes that a tile becomes
constexpr std::int64_t kWordTo = kTileTo / kLineWords;

// Calls tile(at, to) for the whole tiles of 32 rows of `row_bytes` bytes, a line of each row, which
// begins at byte `at`. Returns the bytes of a row that are done: none if a row is missing.
template <class Tile>
std::int64_t over_tiles(const PanelRowsArgs& args, std::int64_t row_bytes, const Tile& tile) {
  if (args.rows[kPanelColumns - 1] == nullptr) return 0;
  auto* to = static_cast<std::uint8_t*>(args.to);
  std::int64_t at = 0;
  for (; at + kLineBytes <= row_bytes; at += kLineBytes, to += kTileTo) {
    const std::uint8_t* const ahead = next_panel(args.rows) + at * kPanelColumns;
    for (std::int64_t n = 0; n < kPanelColumns; ++n) {
      _mm_prefetch(reinterpret_cast<const char*>(ahead + n * kLineBytes), _MM_HINT_T1);
    }
    tile(at, to);
  }
  finish_lines();
  return at;
}

}  // namespace

void pack_dwords_avx2(const PanelRowsArgs& args) {
  const __m256i flips = _mm256_set1_epi32(static_cast<int>(args.flipped));
  const std::int64_t done = over_tiles(args, args.length, [&](std::int64_t at, std::uint8_t* to) {
    for (std::int64_t n = 0; n < kPanelColumns; n += 16) {
      const std::uint8_t* const* const rows = args.rows + n;
      __m256i first[kLineWords];
      transpose_line(rows, rows + 4, at, first);
      for (int i = 0; i < kLineWords; i += kQuarterWords) {
        __m256i last[kQuarterWords];
        transpose_quarter(rows + 8, rows + 12, at + 4 * i, last);
        for (int j = 0; j < kQuarterWords; ++j) {
          store_line(to + (i + j) * kWordTo + n * 4, _mm256_xor_si256(first[i + j], flips),
                     _mm256_xor_si256(last[j], flips));
        }
      }
    }
  });
  if (done < args.length) {
    pack_dwords_reference(Rest(args, done, done, done * kPanelColumns).args());
  }
}

void pack_words_avx2(const PanelRowsArgs& args) {
  const std::int64_t done = over_tiles(args, args.length, [&](std::int64_t at, std::uint8_t* to) {
    const std::uint8_t* const* const rows = args.rows;
    __m256i a[kLineWords];
    __m256i b[kLineWords];
    __m256i lower[kLineWords];
    __m256i upper[kLineWords];
    transpose_line(rows, rows + 8, at, a);
    transpose_line(rows + 4, rows + 12, at, b);
    for (int i = 0; i < kLineWords; ++i) {
      const SplitWords split(a[i], b[i]);
      lower[i] = split.lower;
      upper[i] = split.upper;
    }
    transpose_line(rows + 16, rows + 24, at, a);
    for (int i = 0; i < kLineWords; i += kQuarterWords) {
      __m256i last[kQuarterWords];
      transpose_quarter(rows + 20, rows + 28, at + 4 * i, last);
      for (int j = 0; j < kQuarterWords; ++j) {
        const SplitWords split(a[i + j], last[j]);
        store_line(to + (i + j) * kWordTo, lower[i + j], split.lower);
        store_line(to + (i + j) * kWordTo + kLineBytes, upper[i + j], split.upper);
      }
    }
  });
  if (done < args.length) {
    pack_words_reference(Rest(args, done, done, done * kPanelColumns).args());
  }
}

void pack_nibbles_avx2(const PanelRowsArgs& args) {
  const bool has_odd_first = args.has_odd_first;
  const std::int64_t done =
      2 * over_tiles(args, args.length / 2, [&](std::int64_t at, std::uint8_t* to) {
        const std::uint8_t* const* const rows = args.rows;
        __m256i a[kLineWords];
        __m256i b[kLineWords];
        __m256i c[kLineWords];
        transpose_line(rows, rows + 8, at, a);
        transpose_line(rows + 4, rows + 12, at, b);
        transpose_line(rows + 16, rows + 24, at, c);
        for (int i = 0; i < kLineWords; i += kQuarterWords) {
          __m256i d[kQuarterWords];
          transpose_quarter(rows + 20, rows + 28, at + 4 * i, d);
          for (int j = 0; j < kQuarterWords; ++j) {
            store_pairs({.low = {a[i + j], b[i + j]}, .high = {c[i + j], d[j]}}, has_odd_first,
                        to + (i + j) * kWordTo);
          }
        }
      });
  if (done < args.length) {
    pack_nibbles_reference(Rest(args, done / 2, done, done * kPanelColumns / 2).args());
  }
}

namespace {

// Eight columns of four features in each lane, four columns of a feature in a word: the words of
// columns 0 to 3, and 4 to 7.
struct TwoQuads {
  [[gnu::always_inline]] TwoQuads(__m256i low, __m256i high) {
    const MergedCodes codes(low, high);
    const __m256 a = _mm256_castsi256_ps(_mm256_unpacklo_epi8(codes.even, codes.odd));
    const __m256 b = _mm256_castsi256_ps(_mm256_unpackhi_epi8(codes.even, codes.odd));
    first = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
    last = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD));
  }
  __m256i first, last;
};

}  // namespace

void pack_nibble_quads_avx2(const PanelRowsArgs& args) {
  const std::int64_t done =
      2 * over_tiles(args, args.length / 2, [&](std::int64_t at, std::uint8_t* to) {
        const std::uint8_t* const* const rows = args.rows;
        __m256i a[kLineWords];
        __m256i b[kLineWords];
        __m256i c[kLineWords];
        transpose_line(rows, rows + 4, at, a);
        transpose_line(rows + 8, rows + 12, at, b);
        transpose_line(rows + 16, rows + 20, at, c);
        for (int i = 0; i < kLineWords; i += kQuarterWords) {
          __m256i d[kQuarterWords];
          transpose_quarter(rows + 24, rows + 28, at + 4 * i, d);
          for (int j = 0; j < kQuarterWords; ++j) {
            const TwoQuads eight(a[i + j], c[i + j]);
            const TwoQuads others(b[i + j], d[j]);
            store_line(to + (i + j) * kWordTo, eight.first, others.first);
            store_line(to + (i + j) * kWordTo + kLineBytes, eight.last, others.last);
          }
        }
      });
  if (done < args.length) {
    pack_nibble_quads_reference(Rest(args, done / 2, done, done * kPanelColumns / 2).args());
  }
}

}  // namespace caption::kernels::cpu
