// Packing the rows of a panel: words of eight rows are transposed in registers, and codes that
// share bytes are put together after that.
#include "kernels/cpu/avx2/pack.h"

#include <immintrin.h>

#include "kernels/cpu/avx2/panel_lines.h"
#include "kernels/cpu/internal/panel_rest.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kWordTo = kStepTo / kQuarterWords;  // bytes that a word of each row becomes

// Rows that lie a multiple of this apart, as those of a matrix of 4,096 columns do, compete for few
// lines of the first-level cache, which then keeps no line of 32 rows for the next step.
constexpr std::int64_t kCompetingBytes = 2048;

// Parts of a panel's rows, one after another in memory.
class GatheredRows {
 public:
  static constexpr std::int64_t kBytes = 2 * kLineBytes;  // a part of a row

  GatheredRows() {
    for (std::int64_t n = 0; n < kPanelColumns; ++n) rows_[n] = bytes_ + n * kBytes;
  }
  const std::uint8_t* const* rows() const { return rows_; }

  // Copies the part that begins at byte `at`.
  void gather(const std::uint8_t* const* rows, std::int64_t at) {
    for (std::int64_t n = 0; n < kPanelColumns; ++n) {
      for (std::int64_t i = 0; i < kBytes; i += sizeof(__m256i)) {
        const auto* const from = reinterpret_cast<const __m256i*>(rows[n] + at + i);
        _mm256_store_si256(reinterpret_cast<__m256i*>(bytes_ + n * kBytes + i),
                           _mm256_loadu_si256(from));
      }
    }
  }

 private:
  alignas(kLineBytes) std::uint8_t bytes_[kPanelColumns * kBytes];
  const std::uint8_t* rows_[kPanelColumns];
};

// Fetches lines of a quarter of the rows, two lines behind byte `at`, into the first-level cache:
// the four steps that pack a line of each row fetch one of each.
void fetch_rows(const std::uint8_t* const* rows, std::int64_t at) {
  constexpr std::int64_t kSteps = kLineBytes / kStepBytes;
  constexpr std::int64_t kRows = kPanelColumns / kSteps;
  const std::uint8_t* const* const some = rows + at / kStepBytes % kSteps * kRows;
  for (std::int64_t n = 0; n < kRows; ++n) {
    _mm_prefetch(reinterpret_cast<const char*>(some[n] + at + 2 * kLineBytes), _MM_HINT_T0);
  }
}

// Calls step(rows, at, to) for each 16 bytes of the 32 rows of `row_bytes` bytes, which begin at
// byte `at` of `rows`. The last step may repeat bytes of the one before it; `unit_bytes` of a row
// are packed together. Returns the bytes of a row that are done: none if a row is missing.
template <class Step>
std::int64_t over_steps(const PanelRowsArgs& args, std::int64_t row_bytes, std::int64_t unit_bytes,
                        const Step& step) {
  if (args.rows[kPanelColumns - 1] == nullptr) return 0;
  auto* to = static_cast<std::uint8_t*>(args.to);
  const std::uint8_t* ahead = next_panel(args.rows);
  std::int64_t at = 0;
  if ((args.rows[1] - args.rows[0]) % kCompetingBytes == 0) {
    GatheredRows gathered;
    for (; at + GatheredRows::kBytes <= row_bytes; at += GatheredRows::kBytes) {
      gathered.gather(args.rows, at);
      for (std::int64_t i = 0; i < GatheredRows::kBytes; i += kStepBytes, to += kStepTo) {
        ahead = fetch_step(ahead);
        step(gathered.rows(), i, to);
      }
    }
  }
  for (; at + kStepBytes <= row_bytes; at += kStepBytes, to += kStepTo) {
    ahead = fetch_step(ahead);
    fetch_rows(args.rows, at);
    step(args.rows, at, to);
  }
  const std::int64_t rest = row_bytes - at;
  if (at > 0 && rest > 0 && rest % unit_bytes == 0) {
    step(args.rows, row_bytes - kStepBytes, to + (rest - kStepBytes) * kPanelColumns);
    at = row_bytes;
  }
  return at;
}

}  // namespace

void finish_packing_avx2() { _mm_sfence(); }

void pack_dwords_avx2(const PanelRowsArgs& args) {
  const __m256i flips = _mm256_set1_epi32(static_cast<int>(args.flipped));
  const auto step = [&](const std::uint8_t* const* rows, std::int64_t at, std::uint8_t* to) {
    for (std::int64_t n = 0; n < kPanelColumns; n += 16) {
      __m256i first[kQuarterWords];
      __m256i last[kQuarterWords];
      transpose_quarter(rows + n, rows + n + 4, at, first);
      transpose_quarter(rows + n + 8, rows + n + 12, at, last);
      for (int i = 0; i < kQuarterWords; ++i) {
        store_line(to + i * kWordTo + n * 4, _mm256_xor_si256(first[i], flips),
                   _mm256_xor_si256(last[i], flips));
      }
    }
  };
  const std::int64_t done = over_steps(args, args.length, 4, step);
  if (done < args.length) {
    pack_dwords_reference(Rest(args, done, done, done * kPanelColumns).args());
  }
}

void pack_words_avx2(const PanelRowsArgs& args) {
  const std::int64_t done = over_steps(args, args.length, 2, pack_bytes);
  if (done < args.length) {
    pack_words_reference(Rest(args, done, done, done * kPanelColumns).args());
  }
}

bool pack_e4m3_avx2(const PanelRowsArgs& args) {
  const __m256i sign = _mm256_set1_epi8(static_cast<char>(0x80));
  __m256i largest = sign;  // with the sign bit set, NaN of both signs are the largest codes
  const auto step = [&](const std::uint8_t* const* rows, std::int64_t at, std::uint8_t* to) {
    __m256i of_step = sign;
    pack_seen_bytes(rows, at, to, [&](__m256i codes) {
      of_step = _mm256_max_epu8(of_step, _mm256_or_si256(codes, sign));
    });
    largest = _mm256_max_epu8(largest, of_step);
  };
  const std::int64_t done = over_steps(args, args.length, 2, step);
  const bool has_nan = _mm256_movemask_epi8(_mm256_cmpeq_epi8(largest, _mm256_set1_epi8(-1))) != 0;
  if (done == args.length) return !has_nan;
  return pack_e4m3_reference(Rest(args, done, done, done * kPanelColumns).args()) && !has_nan;
}

void pack_nibbles_avx2(const PanelRowsArgs& args) {
  const bool has_odd_first = args.has_odd_first;
  const auto step = [&](const std::uint8_t* const* rows, std::int64_t at, std::uint8_t* to) {
    const StepWords words(rows, at);
    for (int i = 0; i < kQuarterWords; ++i) {
      store_pairs({.low = {words.a[i], words.b[i]}, .high = {words.c[i], words.d[i]}},
                  has_odd_first, to + i * kWordTo);
    }
  };
  const std::int64_t done = 2 * over_steps(args, args.length / 2, 1, step);
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
  const auto step = [&](const std::uint8_t* const* rows, std::int64_t at, std::uint8_t* to) {
    __m256i a[kQuarterWords];
    __m256i b[kQuarterWords];
    __m256i c[kQuarterWords];
    __m256i d[kQuarterWords];
    transpose_quarter(rows, rows + 4, at, a);
    transpose_quarter(rows + 8, rows + 12, at, b);
    transpose_quarter(rows + 16, rows + 20, at, c);
    transpose_quarter(rows + 24, rows + 28, at, d);
    for (int i = 0; i < kQuarterWords; ++i) {
      const TwoQuads eight(a[i], c[i]);
      const TwoQuads others(b[i], d[i]);
      store_line(to + i * kWordTo, eight.first, others.first);
      store_line(to + i * kWordTo + kLineBytes, eight.last, others.last);
    }
  };
  const std::int64_t done = 2 * over_steps(args, args.length / 2, 2, step);
  if (done < args.length) {
    pack_nibble_quads_reference(Rest(args, done / 2, done, done * kPanelColumns / 2).args());
  }
}

}  // namespace caption::kernels::cpu
