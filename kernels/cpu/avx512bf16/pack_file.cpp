// Packing 4-bit codes of whole panels from the words and blocks of files, without rows in between.
#include <immintrin.h>

#include "kernels/cpu/avx512bf16/pack.h"
#include "kernels/cpu/avx512bf16/transpose.h"
#include "kernels/cpu/internal/panel_rest.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kPairBytes = 32;  // two columns of a panel
constexpr std::int64_t kLineBytes = 64;
// The processor does not foresee steps of kilobytes.
constexpr std::int64_t kRowsAhead = 16;

constexpr ByteIndex kPairs[2] = {pair_index(0), pair_index(2)};

}  // namespace

// A row of words has 8 columns of a panel's features side by side, as the transposed words of rows
// are.
void pack_words_of_columns_avx512bf16(const PanelWordsArgs& args) {
  constexpr std::int64_t kWordColumns = 8;
  const std::int64_t num_words = args.num_columns / kWordColumns;
  for (std::int64_t i = 0; i < num_words; ++i) {
    const std::uint8_t* from = args.words + i * args.stride_bytes;
    std::uint8_t* to = args.to + i * kWordColumns / 2 * kPairBytes;
    const bool is_followed = i + kRowsAhead < num_words;
    const std::int64_t ahead = is_followed ? kRowsAhead * args.stride_bytes : 0;
    for (std::int64_t panel = 0; panel < args.num_panels; ++panel) {
      _mm_prefetch(reinterpret_cast<const char*>(from + ahead), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(from + ahead + kLineBytes), _MM_HINT_T0);
      store_merged(_mm512_loadu_si512(from), _mm512_loadu_si512(from + kLineBytes), kPairs, to);
      from += 2 * kLineBytes;
      to += args.panel_bytes;
    }
  }
  finish_lines();
}

namespace {

// Each lane of 16 bytes holds a column's codes of a panel: nibble i of word w those of row
// 8 * w + {0, 2, 4, 6, 1, 3, 5, 7}[i].
struct MergedPair {
  // Takes two columns. Each byte of the results has the codes of rows n and n + 16 of a column:
  // `even` those from the low bits of the words' bytes, `odd` those from the high bits.
  MergedPair(__m512i first, __m512i second) {
    const __m512i low = _mm512_unpacklo_epi64(first, second);
    const __m512i high = _mm512_unpackhi_epi64(first, second);
    const __m512i mask = _mm512_set1_epi8(0x0F);
    constexpr int kSelect = 0xCA;
    even = _mm512_ternarylogic_epi32(mask, low, _mm512_slli_epi32(high, 4), kSelect);
    odd = _mm512_ternarylogic_epi32(mask, _mm512_srli_epi32(low, 4), high, kSelect);
  }
  __m512i even, odd;
};

// Among 64 bytes, the even and odd bytes of one pair of columns and those of the next, the byte of
// feature n and column c of pair p.
constexpr std::uint8_t word_byte(int n, int p, int c) {
  constexpr int kNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // that holds row n % 8
  const int nibble = kNibble[n % 8];
  return static_cast<std::uint8_t>(32 * p + nibble % 2 * 16 + c * 8 + n / 8 * 4 + nibble / 2);
}

constexpr ByteIndex kTwoPairs = [] {
  ByteIndex index{};
  for (int i = 0; i < 64; ++i) index.at[i] = word_byte(i % 32 / 2, i / 32, i % 2);
  return index;
}();

}  // namespace

namespace {

constexpr std::int64_t kColumns = 4;
constexpr std::int64_t kLanes = 4;  // panels whose words fill a register

// Packs four columns of at most kLanes panels: 64 bytes of each. `ahead`: the bytes from a column
// to one that is to be fetched.
void pack_columns(const PanelWordsArgs& args, const std::uint8_t* from, std::int64_t ahead,
                  std::uint8_t* to) {
  constexpr std::int64_t kPanelWords = kPanelColumns / 8;
  const auto words = static_cast<__mmask16>((1u << (args.num_panels * kPanelWords)) - 1u);
  const __m512i order = _mm512_load_si512(kTwoPairs.at);
  __m512i columns[kColumns];
  for (std::int64_t c = 0; c < kColumns; ++c) {
    const std::uint8_t* const column = from + c * args.stride_bytes;
    _mm_prefetch(reinterpret_cast<const char*>(column + ahead), _MM_HINT_T0);
    columns[c] = _mm512_maskz_loadu_epi32(words, column);
  }
  const MergedPair first(columns[0], columns[1]);
  const MergedPair second(columns[2], columns[3]);
  // The lanes of a panel are brought together.
  const __m512i a = _mm512_shuffle_i32x4(first.even, first.odd, 0x88);
  const __m512i b = _mm512_shuffle_i32x4(first.even, first.odd, 0xDD);
  const __m512i c = _mm512_shuffle_i32x4(second.even, second.odd, 0x88);
  const __m512i d = _mm512_shuffle_i32x4(second.even, second.odd, 0xDD);
  const __m512i panels[kLanes] = {
      _mm512_shuffle_i32x4(a, c, 0x88), _mm512_shuffle_i32x4(b, d, 0x88),
      _mm512_shuffle_i32x4(a, c, 0xDD), _mm512_shuffle_i32x4(b, d, 0xDD)};
  for (std::int64_t panel = 0; panel < args.num_panels; ++panel) {
    store_line(to, _mm512_permutexvar_epi8(order, panels[panel]));
    to += args.panel_bytes;
  }
}

}  // namespace

// Panels beside each other have parts of the same lines and pages.
void pack_words_of_rows_avx512bf16(const PanelWordsArgs& args) {
  PanelWordsArgs some = args;
  for (std::int64_t k = 0; k < args.num_columns; k += kColumns) {
    const bool is_followed = k + 2 * kRowsAhead + kColumns <= args.num_columns;
    const std::int64_t ahead = is_followed ? 2 * kRowsAhead * args.stride_bytes : 0;
    const std::uint8_t* from = args.words + k * args.stride_bytes;
    std::uint8_t* to = args.to + k / 2 * kPairBytes;
    for (std::int64_t panel = 0; panel < args.num_panels; panel += kLanes) {
      some.num_panels = args.num_panels - panel < kLanes ? args.num_panels - panel : kLanes;
      pack_columns(some, from, ahead, to);
      from += kLineBytes;
      to += kLanes * args.panel_bytes;
    }
  }
  finish_lines();
}

namespace {

constexpr std::int64_t kBlockBytes = 18;
constexpr std::int64_t kCodesAt = 2;
constexpr std::int64_t kBlockTo = 16 * kPairBytes;

// The codes of two blocks of a row, one in each lane of 16 bytes.
__m256i load_two_blocks(const std::uint8_t* row) {
  const auto* const first = reinterpret_cast<const __m128i*>(row + kCodesAt);
  const auto* const second = reinterpret_cast<const __m128i*>(row + kBlockBytes + kCodesAt);
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(first)),
                                 _mm_loadu_si128(second), 1);
}

// The codes of two blocks of rows n and n + 16: a byte for each of 64 columns in order.
__m512i merge_blocks(const std::uint8_t* row, const std::uint8_t* row_16) {
  const __m256i a = load_two_blocks(row);
  const __m256i b = load_two_blocks(row_16);
  const __m256i mask = _mm256_set1_epi8(0x0F);
  constexpr int kSelect = 0xCA;
  const __m256i low = _mm256_ternarylogic_epi32(mask, a, _mm256_slli_epi32(b, 4), kSelect);
  const __m256i high = _mm256_ternarylogic_epi32(mask, _mm256_srli_epi32(a, 4), b, kSelect);
  const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  return _mm512_shuffle_i32x4(both, both, 0xD8);
}

// Packs two blocks of each row, which begin at byte `at`: 64 columns. `ahead` as bytes_ahead().
void pack_two_blocks(const std::uint8_t* const* rows, std::int64_t at, std::int64_t ahead,
                     std::uint8_t* to) {
  __m512i words[kHalf];
  for (int n = 0; n < kHalf; ++n) {
    _mm_prefetch(reinterpret_cast<const char*>(rows[n] + at + ahead), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(rows[n + kHalf] + at + ahead), _MM_HINT_T0);
    words[n] = merge_blocks(rows[n] + at, rows[n + kHalf] + at);
  }
  transpose(words);
  // Each word has two pairs of columns of a feature.
  alignas(64) std::uint16_t halves[32];
  for (int i = 0; i < 32; ++i) halves[i] = static_cast<std::uint16_t>(i % 16 * 2 + i / 16);
  const __m512i order = _mm512_load_si512(halves);
  for (int i = 0; i < kHalf; ++i) {
    store_line(to + i * 2 * kPairBytes, _mm512_permutexvar_epi16(order, words[i]));
  }
}

// Writes the scales of a block of each row as f32. Returns which of them are not finite.
std::uint32_t store_scales(const std::uint8_t* const* rows, std::int64_t at, float* to) {
  alignas(64) std::uint16_t halves[kPanelColumns];
  for (std::int64_t n = 0; n < kPanelColumns; ++n) __builtin_memcpy(halves + n, rows[n] + at, 2);
  const __m512i all = _mm512_load_si512(halves);
  _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm512_castsi512_si256(all)));
  _mm512_storeu_ps(to + kHalf, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(all, 1)));
  const __m512i exponent = _mm512_set1_epi16(0x7C00);
  return _mm512_cmpeq_epi16_mask(_mm512_and_si512(all, exponent), exponent);
}

}  // namespace

bool pack_blocks_avx512bf16(const PanelBlocksArgs& args) {
  std::uint32_t not_finite = 0;
  for (std::int64_t block = 0; block < args.num_blocks; block += 2) {
    const std::int64_t at = block * kBlockBytes;
    const std::int64_t ahead = bytes_ahead(args.rows, args.num_blocks * kBlockBytes, at, 1);
    pack_two_blocks(args.rows, at, ahead, args.to + block * kBlockTo);
    for (std::int64_t i = 0; i < 2; ++i) {
      not_finite |=
          store_scales(args.rows, at + i * kBlockBytes, args.scales + (block + i) * kPanelColumns);
    }
  }
  finish_lines();
  return not_finite == 0;
}

}  // namespace caption::kernels::cpu
