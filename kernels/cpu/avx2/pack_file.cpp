// Packing codes of whole panels from the words and blocks of files, without rows in between.
#include <immintrin.h>

#include "kernels/cpu/avx2/pack.h"
#include "kernels/cpu/avx2/panel_lines.h"
#include "kernels/cpu/internal/panel_rest.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kPairBytes = 32;  // of 4-bit codes, two columns of a panel

void fetch_line(const std::uint8_t* from) {
  _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_T1);
}

// Packs a word of each row of words for one panel: 8 columns each. The words of the panel's
// features are beside each other, as the transposed words of rows are.
void pack_panel_words(const std::uint8_t* from, std::uint8_t* to) {
  store_pairs({.low = {load_lanes(from, from + 32), load_lanes(from + 16, from + 48)},
               .high = {load_lanes(from + 64, from + 96), load_lanes(from + 80, from + 112)}},
              false, to);
}

}  // namespace

// Several rows of words at a time, so that what is written to a panel is more than two lines.
void pack_words_of_columns_avx2(const PanelWordsArgs& args) {
  constexpr std::int64_t kRows = 4;
  constexpr std::int64_t kWordTo = 4 * kPairBytes;
  const std::int64_t num_words = args.num_columns / 8;
  for (std::int64_t i = 0; i < num_words; i += kRows) {
    const std::int64_t rows = num_words - i < kRows ? num_words - i : kRows;
    const std::uint8_t* from = args.words + i * args.stride_bytes;
    std::uint8_t* to = args.to + i * kWordTo;
    // The processor does not foresee steps of kilobytes: rows that follow are fetched here.
    const std::int64_t ahead = i + 2 * kRows <= num_words ? kRows * args.stride_bytes : 0;
    for (std::int64_t panel = 0; panel < args.num_panels; ++panel) {
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::uint8_t* const words = from + row * args.stride_bytes;
        fetch_line(words + ahead);
        fetch_line(words + ahead + kLineBytes);
        pack_panel_words(words, to + row * kWordTo);
      }
      from += 2 * kLineBytes;
      to += args.panel_bytes;
    }
  }
  finish_lines();
}

namespace {

// A pair of columns of two panels, whose words of 8 rows lie in a lane of each column: nibble i of
// word w holds the code of row 8 * w + {0, 2, 4, 6, 1, 3, 5, 7}[i].
struct PairOfPanels {
  [[gnu::always_inline]] PairOfPanels(__m256i column, __m256i next) {
    const MergedCodes codes(_mm256_unpacklo_epi64(column, next),
                            _mm256_unpackhi_epi64(column, next));
    // The even nibbles of words are those of rows 0, 4, 1 and 5, the odd ones of 2, 6, 3 and 7.
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 8, 2, 10, 1, 9, 3, 11, 4, 12, 6, 14, 5, 13, 7, 15));
    const __m256i even = _mm256_shuffle_epi8(codes.even, order);
    const __m256i odd = _mm256_shuffle_epi8(codes.odd, order);
    const __m256i rows_0 = _mm256_unpacklo_epi32(even, odd);
    const __m256i rows_8 = _mm256_unpackhi_epi32(even, odd);
    first = _mm256_permute2x128_si256(rows_0, rows_8, 0x20);
    last = _mm256_permute2x128_si256(rows_0, rows_8, 0x31);
  }
  __m256i first, last;  // the pair of each panel
};

constexpr std::int64_t kColumns = 4;           // a line of a panel
constexpr std::int64_t kBlock = 4 * kColumns;  // packed at a time
constexpr std::int64_t kPanelRowBytes = 16;    // a column's words of a panel

// The lines of the rows of words that follow, fetched as they lie in memory.
class FollowingRows {
 public:
  FollowingRows(const PanelWordsArgs& args, std::int64_t first_column)
      : row_(args.words + first_column * args.stride_bytes),
        stride_bytes_(args.stride_bytes),
        row_bytes_(args.num_panels * kPanelRowBytes),
        num_rows_(args.num_columns - first_column) {
    if (num_rows_ > kBlock) num_rows_ = kBlock;
  }
  void fetch(int num_lines) {
    for (; num_lines > 0 && num_rows_ > 0; --num_lines) {
      fetch_line(row_ + at_);
      at_ += kLineBytes;
      if (at_ < row_bytes_) continue;
      at_ = 0;
      row_ += stride_bytes_;
      --num_rows_;
    }
  }

 private:
  const std::uint8_t* row_;
  std::int64_t stride_bytes_;
  std::int64_t row_bytes_;
  std::int64_t num_rows_;
  std::int64_t at_ = 0;
};

// Packs four columns of one panel.
void pack_columns_of_panel(const std::uint8_t* from, std::int64_t stride_bytes, std::uint8_t* to) {
  __m256i columns[kColumns];
  for (std::int64_t c = 0; c < kColumns; ++c) {
    const auto* const words = reinterpret_cast<const __m128i*>(from + c * stride_bytes);
    columns[c] = _mm256_castsi128_si256(_mm_loadu_si128(words));
  }
  store_line(to, PairOfPanels(columns[0], columns[1]).first,
             PairOfPanels(columns[2], columns[3]).first);
}

// Packs `count` columns, at most kBlock, of two panels. The lines of the first panel are written
// before those of the second: when lines of both were written in turn, packing took twice the time.
void pack_columns_of_panels(const std::uint8_t* from, std::int64_t stride_bytes, std::int64_t count,
                            std::uint8_t* to, std::int64_t panel_bytes) {
  __m256i second[kBlock / 2];
  for (std::int64_t c = 0; c < count; c += kColumns) {
    __m256i columns[kColumns];
    for (std::int64_t i = 0; i < kColumns; ++i) {
      const auto* const words = reinterpret_cast<const __m256i*>(from + (c + i) * stride_bytes);
      columns[i] = _mm256_loadu_si256(words);
    }
    const PairOfPanels pair(columns[0], columns[1]);
    const PairOfPanels next(columns[2], columns[3]);
    store_line(to + c / 2 * kPairBytes, pair.first, next.first);
    second[c / 2] = pair.last;
    second[c / 2 + 1] = next.last;
  }
  for (std::int64_t c = 0; c < count; c += kColumns) {
    store_line(to + panel_bytes + c / 2 * kPairBytes, second[c / 2], second[c / 2 + 1]);
  }
}

}  // namespace

void pack_words_of_rows_avx2(const PanelWordsArgs& args) {
  for (std::int64_t k = 0; k < args.num_columns; k += kBlock) {
    const std::int64_t count = k + kBlock < args.num_columns ? kBlock : args.num_columns - k;
    FollowingRows following(args, k + count);
    for (std::int64_t panel = 0; panel < args.num_panels; panel += 2) {
      following.fetch(kBlock / 2);
      const std::uint8_t* const from = args.words + k * args.stride_bytes + panel * kPanelRowBytes;
      std::uint8_t* const to = args.to + panel * args.panel_bytes + k / 2 * kPairBytes;
      if (panel + 1 < args.num_panels) {
        pack_columns_of_panels(from, args.stride_bytes, count, to, args.panel_bytes);
        continue;
      }
      for (std::int64_t c = 0; c < count; c += kColumns) {
        pack_columns_of_panel(from + c * args.stride_bytes, args.stride_bytes,
                              to + c / 2 * kPairBytes);
      }
    }
  }
  finish_lines();
}

namespace {

// The F16 numbers at byte `at` of eight rows.
[[gnu::always_inline]] inline __m128i load_halves(const std::uint8_t* const* rows,
                                                  std::int64_t at) {
  const auto half = [&](int n) {
    std::uint16_t bits = 0;
    __builtin_memcpy(&bits, rows[n] + at, sizeof(bits));
    return static_cast<int>(bits);
  };
  __m128i halves = _mm_cvtsi32_si128(half(0));
  halves = _mm_insert_epi16(halves, half(1), 1);
  halves = _mm_insert_epi16(halves, half(2), 2);
  halves = _mm_insert_epi16(halves, half(3), 3);
  halves = _mm_insert_epi16(halves, half(4), 4);
  halves = _mm_insert_epi16(halves, half(5), 5);
  halves = _mm_insert_epi16(halves, half(6), 6);
  return _mm_insert_epi16(halves, half(7), 7);
}

// Writes the F16 numbers at byte `at` of each row as f32. Returns whether all are finite.
bool store_halves(const std::uint8_t* const* rows, std::int64_t at, float* to) {
  const __m128i exponent = _mm_set1_epi16(0x7C00);
  const auto find_not_finite = [&](__m128i halves) {
    return _mm_cmpeq_epi16(_mm_and_si128(halves, exponent), exponent);
  };
  __m128i not_finite = _mm_setzero_si128();
  for (std::int64_t n = 0; n < kPanelColumns; n += 16) {
    const __m128i first = load_halves(rows + n, at);
    const __m128i last = load_halves(rows + n + 8, at);
    store_line(reinterpret_cast<std::uint8_t*>(to + n), _mm256_castps_si256(_mm256_cvtph_ps(first)),
               _mm256_castps_si256(_mm256_cvtph_ps(last)));
    not_finite =
        _mm_or_si128(not_finite, _mm_or_si128(find_not_finite(first), find_not_finite(last)));
  }
  return _mm_movemask_epi8(not_finite) == 0;
}

// Calls pack(rows, at, to) for the blocks of each row, which begin at byte `at` and become
// `block_to` bytes at `to`, and widens the scale that each begins with. Returns whether all scales
// are finite.
template <class Pack>
bool over_blocks(const PanelBlocksArgs& args, std::int64_t block_bytes, std::int64_t block_to,
                 const Pack& pack) {
  const std::uint8_t* const next = next_panel(args.rows);
  bool is_finite = true;
  std::int64_t fetched = 0;
  for (std::int64_t block = 0; block < args.num_blocks; ++block) {
    const std::int64_t at = block * block_bytes;
    for (; fetched < (at + block_bytes) * kPanelColumns; fetched += kLineBytes) {
      fetch_line(next + fetched);
    }
    is_finite &= store_halves(args.rows, at, args.scales + block * kPanelColumns);
    pack(at, args.to + block * block_to);
  }
  finish_lines();
  return is_finite;
}

// Packs 16 bytes of codes of each row, which begin at byte `at`: byte i holds column i in the low
// half and column i + 16 in the high half.
void pack_halves_of_bytes(const std::uint8_t* const* rows, std::int64_t at, std::uint8_t* to) {
  constexpr std::int64_t kHalfTo = 8 * kPairBytes;
  const StepWords words(rows, at);
  __m256i odd[kQuarterWords][2];
  // Two bytes of a feature are a pair of columns: halves of words are gathered.
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  for (int i = 0; i < kQuarterWords; ++i) {
    const MergedCodes ac(words.a[i], words.c[i]);
    const MergedCodes bd(words.b[i], words.d[i]);
    const __m256i even_a = _mm256_shuffle_epi8(ac.even, order);
    const __m256i even_b = _mm256_shuffle_epi8(bd.even, order);
    const __m256i odd_a = _mm256_shuffle_epi8(ac.odd, order);
    const __m256i odd_b = _mm256_shuffle_epi8(bd.odd, order);
    store_line(to + i * kLineBytes, _mm256_unpacklo_epi64(even_a, even_b),
               _mm256_unpackhi_epi64(even_a, even_b));
    odd[i][0] = _mm256_unpacklo_epi64(odd_a, odd_b);
    odd[i][1] = _mm256_unpackhi_epi64(odd_a, odd_b);
  }
  // Lines are written as they lie in memory.
  for (int i = 0; i < kQuarterWords; ++i) {
    store_line(to + kHalfTo + i * kLineBytes, odd[i][0], odd[i][1]);
  }
}

constexpr std::int64_t kBlockColumns = 32;
constexpr std::int64_t kScaleBytes = 2;

}  // namespace

bool pack_blocks_avx2(const PanelBlocksArgs& args) {
  constexpr std::int64_t kBlockBytes = kScaleBytes + kBlockColumns / 2;
  return over_blocks(args, kBlockBytes, kBlockColumns / 2 * kPairBytes,
                     [&](std::int64_t at, std::uint8_t* to) {
                       pack_halves_of_bytes(args.rows, at + kScaleBytes, to);
                     });
}

bool pack_byte_blocks_avx2(const PanelBlocksArgs& args) {
  constexpr std::int64_t kBlockBytes = kScaleBytes + kBlockColumns;
  constexpr std::int64_t kHalfTo = kBlockColumns / 2 * kPanelColumns;
  return over_blocks(args, kBlockBytes, 2 * kHalfTo, [&](std::int64_t at, std::uint8_t* to) {
    pack_bytes(args.rows, at + kScaleBytes, to);
    pack_bytes(args.rows, at + kScaleBytes + kBlockColumns / 2, to + kHalfTo);
  });
}

}  // namespace caption::kernels::cpu
