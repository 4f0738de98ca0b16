// Packing codes of whole panels from the words of files, without rows in between.
#include <immintrin.h>

#include "kernels/cpu/avx2/pack.h"
#include "kernels/cpu/avx2/panel_lines.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

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
}

}  // namespace caption::kernels::cpu
