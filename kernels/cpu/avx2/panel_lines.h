// kernels/cpu/avx2/panel_lines.h: words and codes of a panel's rows, exchanged in registers and
// written as whole lines of the processor's caches.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kLineBytes = 64;
constexpr std::int64_t kPairBytes = 32;  // two columns of 4-bit codes of a panel
constexpr int kQuarterWords = 4;

// The functions below are inlined: a call would bring the registers through memory.

[[gnu::always_inline]] inline __m256i load_lanes(const std::uint8_t* lower,
                                                 const std::uint8_t* upper) {
  const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(lower));
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(upper));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

// words[i] = word i of 16 bytes, which begin at byte `at`, of four rows in the lower lane and four
// other rows in the upper lane.
[[gnu::always_inline]] inline void transpose_quarter(const std::uint8_t* const* lower,
                                                     const std::uint8_t* const* upper,
                                                     std::int64_t at, __m256i* words) {
  const __m256i a = load_lanes(lower[0] + at, upper[0] + at);
  const __m256i b = load_lanes(lower[1] + at, upper[1] + at);
  const __m256i c = load_lanes(lower[2] + at, upper[2] + at);
  const __m256i d = load_lanes(lower[3] + at, upper[3] + at);
  const __m256i ab_low = _mm256_unpacklo_epi32(a, b);
  const __m256i ab_high = _mm256_unpackhi_epi32(a, b);
  const __m256i cd_low = _mm256_unpacklo_epi32(c, d);
  const __m256i cd_high = _mm256_unpackhi_epi32(c, d);
  words[0] = _mm256_unpacklo_epi64(ab_low, cd_low);
  words[1] = _mm256_unpackhi_epi64(ab_low, cd_low);
  words[2] = _mm256_unpacklo_epi64(ab_high, cd_high);
  words[3] = _mm256_unpackhi_epi64(ab_high, cd_high);
}

// 16 bytes of each of 32 rows, which begin at byte `at`: word i of the rows 0 to 3 and 8 to 11 (a),
// 4 to 7 and 12 to 15 (b), and of the same rows 16 later (c, d).
struct StepWords {
  [[gnu::always_inline]] StepWords(const std::uint8_t* const* rows, std::int64_t at) {
    transpose_quarter(rows, rows + 8, at, a);
    transpose_quarter(rows + 4, rows + 12, at, b);
    transpose_quarter(rows + 16, rows + 24, at, c);
    transpose_quarter(rows + 20, rows + 28, at, d);
  }
  __m256i a[kQuarterWords], b[kQuarterWords], c[kQuarterWords], d[kQuarterWords];
};

constexpr std::int64_t kStepBytes = 16;                       // a step packs so much of a row
constexpr std::int64_t kStepTo = kPanelColumns * kStepBytes;  // and so much of all rows

// Fetches a line into the second-level cache.
inline void fetch_line(const std::uint8_t* from) {
  _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_T1);
}

// Fetches as many bytes as 16 of each row are. Returns where the next ones begin.
inline const std::uint8_t* fetch_step(const std::uint8_t* ahead) {
  for (std::int64_t i = 0; i < kStepTo; i += kLineBytes) fetch_line(ahead + i);
  return ahead + kStepTo;
}

// Writes a line past the processor's caches: packed weights are read long after. A thread that
// wrote lines calls Tier::finish_packing() before others read them.
[[gnu::always_inline]] inline void store_line(std::uint8_t* to, __m256i first, __m256i last) {
  auto* const halves = reinterpret_cast<__m256i*>(to);
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(__m256i) == 0) {
    _mm256_stream_si256(halves, first);
    _mm256_stream_si256(halves + 1, last);
  } else {
    _mm256_storeu_si256(halves, first);
    _mm256_storeu_si256(halves + 1, last);
  }
}

// Half of a line, in the same way.
[[gnu::always_inline]] inline void store_half_line(void* to, __m256i half) {
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(half) == 0) {
    _mm256_stream_si256(static_cast<__m256i*>(to), half);
  } else {
    _mm256_storeu_si256(static_cast<__m256i*>(to), half);
  }
}

// Bytes of two rows n and n + 16 that share their codes: the low halves hold those of row n.
struct MergedCodes {
  // `low` has the codes of rows n, `high` those of rows n + 16.
  [[gnu::always_inline]] MergedCodes(__m256i low, __m256i high) {
    const __m256i mask = _mm256_set1_epi8(0x0F);
    const __m256i shifted_low = _mm256_srli_epi16(low, 4);
    const __m256i shifted_high = _mm256_slli_epi16(high, 4);
    even = _mm256_or_si256(_mm256_and_si256(mask, low), _mm256_andnot_si256(mask, shifted_high));
    odd = _mm256_or_si256(_mm256_and_si256(mask, shifted_low), _mm256_andnot_si256(mask, high));
  }
  __m256i even, odd;  // from the low and the high halves of bytes
};

// Brings byte i of four words beside each other, for each i.
[[gnu::always_inline]] inline __m256i gather_bytes(__m256i words) {
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  return _mm256_shuffle_epi8(words, order);
}

// Eight columns of 4-bit codes of a panel, of which each word holds those of one feature: the words
// of the features 0 to 3 and 8 to 11, 4 to 7 and 12 to 15, and the same 16 features later.
struct PanelWords {
  __m256i low[2];
  __m256i high[2];
};

// The four pairs of columns of four features in each lane: pairs 0 and 1, and 2 and 3.
struct FourPairs {
  [[gnu::always_inline]] FourPairs(__m256i low, __m256i high, bool has_odd_first) {
    const MergedCodes codes(low, high);
    const __m256i even = gather_bytes(has_odd_first ? codes.odd : codes.even);
    const __m256i odd = gather_bytes(has_odd_first ? codes.even : codes.odd);
    first = _mm256_unpacklo_epi8(even, odd);
    last = _mm256_unpackhi_epi8(even, odd);
  }
  __m256i first, last;
};

// Writes the pairs of eight columns, 128 bytes, in the order of panel4_position().
[[gnu::always_inline]] inline void store_pairs(const PanelWords& words, bool has_odd_first,
                                               std::uint8_t* to) {
  const FourPairs a(words.low[0], words.high[0], has_odd_first);
  const FourPairs b(words.low[1], words.high[1], has_odd_first);
  store_line(to, _mm256_unpacklo_epi64(a.first, b.first), _mm256_unpackhi_epi64(a.first, b.first));
  store_line(to + kLineBytes, _mm256_unpacklo_epi64(a.last, b.last),
             _mm256_unpackhi_epi64(a.last, b.last));
}

// Halves of words of the features 0 to 3 and 8 to 11 (`a`) and 4 to 7 and 12 to 15 (`b`): the lower
// and the upper ones of all 16.
struct SplitWords {
  [[gnu::always_inline]] SplitWords(__m256i a, __m256i b) {
    const __m256i mask = _mm256_set1_epi32(0xFFFF);
    lower = _mm256_packus_epi32(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask));
    upper = _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16));
  }
  __m256i lower, upper;
};

// Packs 16 codes of 8 bits of each row, which begin at byte `at`, and calls see() with each 32 of
// them.
template <class See>
[[gnu::always_inline]] inline void pack_seen_bytes(const std::uint8_t* const* rows, std::int64_t at,
                                                   std::uint8_t* to, const See& see) {
  constexpr std::int64_t kPairTo = 2 * kPanelColumns;
  constexpr std::int64_t kWordTo = 2 * kPairTo;
  const StepWords words(rows, at);
  for (int i = 0; i < kQuarterWords; ++i) {
    const SplitWords first(words.a[i], words.b[i]);
    const SplitWords last(words.c[i], words.d[i]);
    store_line(to + i * kWordTo, first.lower, last.lower);
    store_line(to + i * kWordTo + kPairTo, first.upper, last.upper);
    see(first.lower);
    see(first.upper);
    see(last.lower);
    see(last.upper);
  }
}

[[gnu::always_inline]] inline void pack_bytes(const std::uint8_t* const* rows, std::int64_t at,
                                              std::uint8_t* to) {
  pack_seen_bytes(rows, at, to, [](__m256i) {});
}

}  // namespace
}  // namespace caption::kernels::cpu
