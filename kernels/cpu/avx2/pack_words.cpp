// Packing codes of whole panels from the words of files, without rows in between.
#include <immintrin.h>

#include "kernels/cpu/avx2/pack.h"
#include "kernels/cpu/avx2/panel_lines.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kColumnsOfWord = 8;
constexpr std::int64_t kPanelWordBytes = 2 * kLineBytes;  // a word of each feature of a panel

// The lines of the rows of words that follow, fetched as they lie in memory.
class FollowingLines {
 public:
  FollowingLines(const std::uint8_t* first, std::int64_t stride_bytes, std::int64_t row_bytes,
                 std::int64_t num_rows)
      : row_(first), stride_bytes_(stride_bytes), row_bytes_(row_bytes), num_rows_(num_rows) {
    if (row_bytes == 0) num_rows_ = 0;
  }
  void fetch(int num_lines) {
    for (; num_lines > 0 && num_rows_ > 0; --num_lines) {
      fetch_line(row_ + at_);
      at_ += kLineBytes;
      if (at_ < row_bytes_) continue;
      fetch_line(row_ + row_bytes_ - 1);  // the row may begin within a line
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

// Every second column of a word of each of 32 rows.
struct FourColumns {
  // The codes of the rows 0 to 3 and 8 to 11, and 4 to 7 and 12 to 15, a column in a byte of each
  // word; those of the 16 rows that follow share the bytes.
  [[gnu::always_inline]] FourColumns(__m256i a, __m256i b) {
    a = gather_bytes(a);
    b = gather_bytes(b);
    first = _mm256_permute4x64_epi64(_mm256_unpacklo_epi32(a, b), _MM_SHUFFLE(3, 1, 2, 0));
    last = _mm256_permute4x64_epi64(_mm256_unpackhi_epi32(a, b), _MM_SHUFFLE(3, 1, 2, 0));
  }
  // Writes them to every second place from `to` on.
  [[gnu::always_inline]] void store(std::uint8_t* to) const {
    auto* const columns = reinterpret_cast<__m128i*>(to);
    _mm_storeu_si128(columns, _mm256_castsi256_si128(first));
    _mm_storeu_si128(columns + 2, _mm256_extracti128_si256(first, 1));
    _mm_storeu_si128(columns + 4, _mm256_castsi256_si128(last));
    _mm_storeu_si128(columns + 6, _mm256_extracti128_si256(last, 1));
  }
  __m256i first, last;  // a column in each lane
};

// Writes the eight columns of a word of each row of a panel: byte n of a column holds the codes of
// the rows n and n + 16.
void split_panel_words(const std::uint8_t* from, std::uint8_t* columns) {
  const MergedCodes a(load_lanes(from, from + 32), load_lanes(from + 64, from + 96));
  const MergedCodes b(load_lanes(from + 16, from + 48), load_lanes(from + 80, from + 112));
  FourColumns(a.even, b.even).store(columns);
  FourColumns(a.odd, b.odd).store(columns + kOrderedColumnBytes);
}

// The pair of columns that come next in an order, side by side.
__m256i join_pair(const std::uint8_t* columns, const std::int32_t* order) {
  const auto* const column = reinterpret_cast<const __m128i*>(columns);
  const __m128i even = _mm_loadu_si128(column + order[0]);
  const __m128i odd = _mm_loadu_si128(column + order[1]);
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi8(even, odd)),
                                 _mm_unpackhi_epi8(even, odd), 1);
}

// Splits all words into columns.
void split_words(const OrderedWordsArgs& args) {
  const PanelWordsArgs& words = args.words;
  constexpr std::int64_t kAhead = 8;  // rows of words
  const std::int64_t num_words = words.num_columns / kColumnsOfWord;
  for (std::int64_t i = 0; i < num_words; ++i) {
    const std::uint8_t* from = words.words + i * words.stride_bytes;
    std::uint8_t* columns = args.columns + i * kColumnsOfWord * kOrderedColumnBytes;
    const std::int64_t ahead = i + kAhead < num_words ? kAhead * words.stride_bytes : 0;
    for (std::int64_t panel = 0; panel < words.num_panels; ++panel) {
      fetch_line(from + ahead);
      fetch_line(from + ahead + kLineBytes);
      split_panel_words(from, columns);
      from += kPanelWordBytes;
      columns += words.num_columns * kOrderedColumnBytes;
    }
    fetch_line(from + ahead - 1);  // words may begin within a line
  }
}

}  // namespace

// All words are split into columns, which are as many bytes, before the columns are joined. What
// follows is fetched meanwhile, since joining reads the caches alone.
void pack_ordered_words_avx2(const OrderedWordsArgs& args) {
  const auto& [words, stride_bytes, num_columns, num_panels, to, panel_bytes] = args.words;
  split_words(args);
  FollowingLines following(words + num_panels * kPanelWordBytes, stride_bytes,
                           args.num_following * kPanelWordBytes, num_columns / kColumnsOfWord);
  const std::int64_t columns_bytes = num_columns * kOrderedColumnBytes;
  for (std::int64_t panel = 0; panel < num_panels; ++panel) {
    const std::uint8_t* const columns = args.columns + panel * columns_bytes;
    std::uint8_t* line = to + panel * panel_bytes;
    for (std::int64_t k = 0; k < num_columns; k += 4, line += kLineBytes) {
      following.fetch(1);
      store_line(line, join_pair(columns, args.order + k), join_pair(columns, args.order + k + 2));
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
    const std::int64_t next = k + count;
    const std::int64_t rows = args.num_columns - next < kBlock ? args.num_columns - next : kBlock;
    FollowingLines following(args.words + next * args.stride_bytes, args.stride_bytes,
                             args.num_panels * kPanelRowBytes, rows);
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
