// Packing panels from the blocks of GGUF files (weights/ggml_type.h), without rows in between. The
// scales and offsets are those of weights/internal/ggml_blocks.h, bit for bit.
#include <immintrin.h>

#include "kernels/cpu/avx2/pack.h"
#include "kernels/cpu/avx2/panel_lines.h"
#include "kernels/cpu/internal/panel_rest.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kOctet = 8;  // rows whose scales a register holds
constexpr int kOctets = kPanelColumns / kOctet;
constexpr std::int64_t kStepColumns = 16;

// The rows of a panel at one of their blocks.
struct BlockRows {
  const std::uint8_t* const* rows;
  std::int64_t at;  // the block's first byte in each row
};

[[gnu::always_inline]] inline __m128i find_not_finite(__m128i halves) {
  const __m128i exponent = _mm_set1_epi16(0x7C00);
  return _mm_cmpeq_epi16(_mm_and_si128(halves, exponent), exponent);
}

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

// 16 bytes at byte `at` of eight rows: words[i] holds word i of each row.
[[gnu::always_inline]] inline void load_words(const std::uint8_t* const* rows, std::int64_t at,
                                              __m256i* words) {
  transpose_quarter(rows, rows + kOctet / 2, at, words);
}

// Writes F16 numbers of the rows of a panel, a line of them. Returns whether all are finite.
[[gnu::always_inline]] inline bool store_halves(const __m128i* octets, void* to) {
  store_line(static_cast<std::uint8_t*>(to), _mm256_set_m128i(octets[1], octets[0]),
             _mm256_set_m128i(octets[3], octets[2]));
  const __m128i not_finite =
      _mm_or_si128(_mm_or_si128(find_not_finite(octets[0]), find_not_finite(octets[1])),
                   _mm_or_si128(find_not_finite(octets[2]), find_not_finite(octets[3])));
  return _mm_movemask_epi8(not_finite) == 0;
}

// The same with those at byte `at` of each row.
bool store_halves(const std::uint8_t* const* rows, std::int64_t at, void* to) {
  __m128i octets[kOctets];
  for (int i = 0; i < kOctets; ++i) octets[i] = load_halves(rows + i * kOctet, at);
  return store_halves(octets, to);
}

// The integers of 6 bits of eight rows of a Q4_K or Q5_K block, and d and -dmin in F16. Byte g of a
// word is the integer of group g of its half.
struct KScales {
  [[gnu::always_inline]] KScales(const std::uint8_t* const* rows, std::int64_t at) {
    __m256i words[kQuarterWords];
    load_words(rows, at, words);
    // The units of four rows are in each lane, d before dmin; then the d of all rows come first.
    const __m256i units = _mm256_packus_epi32(_mm256_and_si256(words[0], _mm256_set1_epi32(0xFFFF)),
                                              _mm256_srli_epi32(words[0], 16));
    const __m256i sorted = _mm256_permute4x64_epi64(units, 0xD8);
    d = _mm256_castsi256_si128(sorted);
    minus_dmin = _mm_xor_si128(_mm256_extracti128_si256(sorted, 1), _mm_set1_epi16(-0x8000));
    const __m256i six = _mm256_set1_epi8(0x3F);
    const __m256i four = _mm256_set1_epi8(0x0F);
    const __m256i two = _mm256_set1_epi8(0x30);
    const auto high = [&](__m256i word) {
      return _mm256_and_si256(_mm256_srli_epi32(word, 2), two);
    };
    scales[0] = _mm256_and_si256(words[1], six);
    offsets[0] = _mm256_and_si256(words[2], six);
    scales[1] = _mm256_or_si256(_mm256_and_si256(words[3], four), high(words[1]));
    offsets[1] =
        _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(words[3], 4), four), high(words[2]));
  }
  __m256i scales[2];  // groups 0 to 3, groups 4 to 7
  __m256i offsets[2];
  __m128i d;
  __m128i minus_dmin;
};

// Writes integers of four groups, [4, kPanelColumns]: `words` have those of eight rows each, and
// byte g of a word is that of group g.
[[gnu::always_inline]] inline void store_groups(const __m256i* words, std::uint8_t* to) {
  // A lane has the words of four rows. The first shuffle puts the four bytes of each group
  // together, the second one the two halves of a group, which are in different lanes.
  const __m256i by_group = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  const __m256i of_lanes = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  __m256i octets[kOctets];
  for (int i = 0; i < kOctets; ++i) {
    octets[i] = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(words[i], by_group), of_lanes);
  }
  const __m256i even_a = _mm256_unpacklo_epi64(octets[0], octets[1]);
  const __m256i even_b = _mm256_unpacklo_epi64(octets[2], octets[3]);
  const __m256i odd_a = _mm256_unpackhi_epi64(octets[0], octets[1]);
  const __m256i odd_b = _mm256_unpackhi_epi64(octets[2], octets[3]);
  store_line(to, _mm256_permute2x128_si256(even_a, even_b, 0x20),
             _mm256_permute2x128_si256(odd_a, odd_b, 0x20));
  store_line(to + kLineBytes, _mm256_permute2x128_si256(even_a, even_b, 0x31),
             _mm256_permute2x128_si256(odd_a, odd_b, 0x31));
}

constexpr std::int64_t kGroupsTo = 4 * kPanelColumns;  // bytes that store_groups() writes

// Where the scales and offsets of a block go.
struct BlockNumbers {
  BlockNumbers(const PanelBlocksArgs& args, std::int64_t block, std::int64_t groups)
      : scales(at(args.scales, block * groups * kPanelColumns)),
        offsets(at(args.offsets, block * groups * kPanelColumns)),
        scale_units(at(args.scale_units, block * kLineBytes)),
        offset_units(at(args.offset_units, block * kLineBytes)) {}
  static std::uint8_t* at(void* numbers, std::int64_t byte) {
    return numbers == nullptr ? nullptr : static_cast<std::uint8_t*>(numbers) + byte;
  }
  std::uint8_t* scales;
  std::uint8_t* offsets;
  std::uint8_t* scale_units;
  std::uint8_t* offset_units;
};

bool store_k_scales(BlockRows block, const BlockNumbers& to) {
  constexpr int kHalves = 2;
  __m256i scales[kHalves][kOctets], offsets[kHalves][kOctets];
  __m128i d[kOctets], minus_dmin[kOctets];
  for (int i = 0; i < kOctets; ++i) {
    const KScales octet(block.rows + i * kOctet, block.at);
    for (int half = 0; half < kHalves; ++half) {
      scales[half][i] = octet.scales[half];
      offsets[half][i] = octet.offsets[half];
    }
    d[i] = octet.d;
    minus_dmin[i] = octet.minus_dmin;
  }
  for (int half = 0; half < kHalves; ++half) {
    store_groups(scales[half], to.scales + half * kGroupsTo);
    store_groups(offsets[half], to.offsets + half * kGroupsTo);
  }
  const bool is_finite = store_halves(d, to.scale_units);
  return store_halves(minus_dmin, to.offset_units) && is_finite;
}

// A Q6_K block's unit at byte 208 and its 16 integers of 8 bits at byte 192.
bool store_q6_k_scales(BlockRows block, const BlockNumbers& to) {
  __m256i words[kQuarterWords][kOctets];
  for (int i = 0; i < kOctets; ++i) {
    __m256i of_octet[kQuarterWords];
    load_words(block.rows + i * kOctet, block.at + 192, of_octet);
    for (int word = 0; word < kQuarterWords; ++word) words[word][i] = of_octet[word];
  }
  for (int word = 0; word < kQuarterWords; ++word) {
    store_groups(words[word], to.scales + word * kGroupsTo);
  }
  return store_halves(block.rows, block.at + 208, to.scale_units);
}

// Packs 16 bytes of 4-bit codes of each row, which begin at byte `at`: the low halves are columns
// that go to `to`, and the high halves those that go to `high_to`.
void pack_halves_of_bytes(const std::uint8_t* const* rows, std::int64_t at, std::uint8_t* to,
                          std::uint8_t* high_to) {
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
    store_line(high_to + i * kLineBytes, odd[i][0], odd[i][1]);
  }
}

constexpr std::int64_t kColumnTo4 = kPanelColumns / 2;  // bytes of a panel's column of 4-bit codes
constexpr std::int64_t kColumnTo8 = kPanelColumns;

// Packs 32 columns, of which byte i holds the columns i and i + 16.
void pack_nibbles_16(const std::uint8_t* const* rows, std::int64_t at, std::uint8_t* to) {
  pack_halves_of_bytes(rows, at, to, to + kStepColumns * kColumnTo4);
}

// Packs 64 columns, of which byte i holds the columns i and i + 32.
void pack_nibbles_32(const std::uint8_t* const* rows, std::int64_t at, std::uint8_t* to) {
  for (std::int64_t k = 0; k < 32; k += kStepColumns) {
    std::uint8_t* const low = to + k * kColumnTo4;
    pack_halves_of_bytes(rows, at + k, low, low + 32 * kColumnTo4);
  }
}

// Columns of the rows of a panel as bytes.
template <std::int64_t kColumns>
class ByteRows {
 public:
  ByteRows() {
    for (std::int64_t n = 0; n < kPanelColumns; ++n) rows_[n] = bytes_ + n * kColumns;
  }
  std::uint8_t* row(std::int64_t n) { return bytes_ + n * kColumns; }
  void pack(std::uint8_t* to) const {
    for (std::int64_t k = 0; k < kColumns; k += kStepColumns) {
      pack_bytes(rows_, k, to + k * kColumnTo8);
    }
  }

 private:
  alignas(kLineBytes) std::uint8_t bytes_[kPanelColumns * kColumns];
  const std::uint8_t* rows_[kPanelColumns];
};

[[gnu::always_inline]] inline __m256i load_32(const std::uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
[[gnu::always_inline]] inline void store_32(std::uint8_t* to, __m256i bytes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
}
[[gnu::always_inline]] inline __m256i low_halves(__m256i bytes) {
  return _mm256_and_si256(bytes, _mm256_set1_epi8(0x0F));
}
[[gnu::always_inline]] inline __m256i high_halves(__m256i bytes) {
  return low_halves(_mm256_srli_epi16(bytes, 4));
}
// The bits of `mask` of bytes that are moved by `left` bits, or to the right where it is negative.
[[gnu::always_inline]] inline __m256i moved_bits(__m256i bytes, int left, char mask) {
  const __m256i moved =
      left >= 0 ? _mm256_slli_epi16(bytes, left) : _mm256_srli_epi16(bytes, -left);
  return _mm256_and_si256(moved, _mm256_set1_epi8(mask));
}

// Packs the 32 columns of a Q5_0 or Q5_1 block: 32 fifth bits, and 16 bytes of which byte i holds
// the columns i and i + 16. The codes are less by `middle`.
void pack_fifths(BlockRows block, std::int64_t bits_at, char middle, std::uint8_t* to) {
  ByteRows<32> columns;
  const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                          2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bit_of = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
  for (std::int64_t n = 0; n < kPanelColumns; ++n) {
    const std::uint8_t* const from = block.rows[n] + block.at + bits_at;
    int bits = 0;
    __builtin_memcpy(&bits, from, sizeof(bits));
    const __m256i spread_bits = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), spread);
    const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(spread_bits, bit_of), bit_of);
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + sizeof(bits)));
    const __m256i fours = low_halves(
        _mm256_inserti128_si256(_mm256_castsi128_si256(both), _mm_srli_epi16(both, 4), 1));
    const __m256i fives = _mm256_or_si256(fours, _mm256_and_si256(is_set, _mm256_set1_epi8(16)));
    store_32(columns.row(n), _mm256_sub_epi8(fives, _mm256_set1_epi8(middle)));
  }
  columns.pack(to);
}

// Packs 64 columns of a Q5_K block: chunk `kChunk` of its 32-byte runs of nibbles at byte 48, with
// bits 2 * kChunk and 2 * kChunk + 1 of its 32 bytes at byte 16.
template <int kChunk>
void pack_q5_k_chunk(BlockRows block, std::uint8_t* to) {
  ByteRows<64> columns;
  for (std::int64_t n = 0; n < kPanelColumns; ++n) {
    const std::uint8_t* const from = block.rows[n] + block.at;
    const __m256i high = load_32(from + 16);
    const __m256i both = load_32(from + 48 + 32 * kChunk);
    store_32(columns.row(n),
             _mm256_or_si256(low_halves(both), moved_bits(high, 4 - 2 * kChunk, 0x10)));
    store_32(columns.row(n) + 32,
             _mm256_or_si256(high_halves(both), moved_bits(high, 3 - 2 * kChunk, 0x10)));
  }
  columns.pack(to);
}

void pack_q5_k(BlockRows block, std::uint8_t* to) {
  pack_q5_k_chunk<0>(block, to);
  pack_q5_k_chunk<1>(block, to + 64 * kColumnTo8);
  pack_q5_k_chunk<2>(block, to + 128 * kColumnTo8);
  pack_q5_k_chunk<3>(block, to + 192 * kColumnTo8);
}

// Packs the 256 columns of a Q6_K block, half by half: 64 bytes of nibbles and, at byte 128, 32
// bytes with two bits for each quarter of the half's columns.
void pack_q6_k(BlockRows block, std::uint8_t* to) {
  ByteRows<128> columns;
  const __m256i middle = _mm256_set1_epi8(32);
  for (std::int64_t half = 0; half < 2; ++half) {
    for (std::int64_t n = 0; n < kPanelColumns; ++n) {
      const std::uint8_t* const from = block.rows[n] + block.at;
      const __m256i first = load_32(from + 64 * half);
      const __m256i last = load_32(from + 64 * half + 32);
      const __m256i high = load_32(from + 128 + 32 * half);
      const auto store = [&](std::int64_t quarter, __m256i fours, __m256i twos) {
        store_32(columns.row(n) + 32 * quarter,
                 _mm256_sub_epi8(_mm256_or_si256(fours, twos), middle));
      };
      store(0, low_halves(first), moved_bits(high, 4, 0x30));
      store(1, low_halves(last), moved_bits(high, 2, 0x30));
      store(2, high_halves(first), moved_bits(high, 0, 0x30));
      store(3, high_halves(last), moved_bits(high, -2, 0x30));
    }
    columns.pack(to + half * 128 * kColumnTo8);
  }
}

// Calls pack(block, index) for the blocks of the rows, `columns` and `bytes` each, which returns
// whether the block's scales are finite. Returns whether all are.
template <class Pack>
bool over_blocks(const PanelBlocksArgs& args, std::int64_t columns, std::int64_t bytes,
                 const Pack& pack) {
  const std::uint8_t* const next = next_panel(args.rows);
  // Where a panel has every second row of the file, the next two panels lie there.
  const bool is_every_second =
      args.rows[1] - args.rows[0] == 2 * (args.num_columns / columns) * bytes;
  const std::int64_t fetched_rows = is_every_second ? 2 * kPanelColumns : kPanelColumns;
  bool is_finite = true;
  std::int64_t fetched = 0;
  for (std::int64_t i = 0; i < args.num_columns / columns; ++i) {
    const std::int64_t at = i * bytes;
    for (; fetched < (at + bytes) * fetched_rows; fetched += kLineBytes) {
      fetch_line(next + fetched);
    }
    is_finite &= pack(BlockRows{args.rows, at}, i);
  }
  return is_finite;
}

// Blocks of 32 columns that begin with an F16 scale, then have an F16 offset if they have any, and
// then codes, `code_bytes` of them, which pack(block, codes_at, to) packs.
template <class Pack>
bool over_simple_blocks(const PanelBlocksArgs& args, std::int64_t code_bytes,
                        std::int64_t column_to, const Pack& pack) {
  constexpr std::int64_t kColumns = 32;
  constexpr std::int64_t kHalfBytes = 2;
  const bool has_offsets = args.offsets != nullptr;
  const std::int64_t codes_at = (has_offsets ? 2 : 1) * kHalfBytes;
  return over_blocks(args, kColumns, codes_at + code_bytes, [&](BlockRows block, std::int64_t i) {
    const auto at_block = [&](void* halves) {
      return static_cast<std::uint16_t*>(halves) + i * kPanelColumns;
    };
    bool is_finite = store_halves(block.rows, block.at, at_block(args.scales));
    if (has_offsets) {
      is_finite &= store_halves(block.rows, block.at + kHalfBytes, at_block(args.offsets));
    }
    pack(block, codes_at, args.to + i * kColumns * column_to);
    return is_finite;
  });
}

bool pack_k_blocks(const PanelBlocksArgs& args) {
  constexpr std::int64_t kColumns = 256;
  if (args.blocks == CodeBlocks::kQ6_K) {
    return over_blocks(args, kColumns, 210, [&](BlockRows block, std::int64_t i) {
      const bool is_finite = store_q6_k_scales(block, BlockNumbers(args, i, 16));
      pack_q6_k(block, args.to + i * kColumns * kColumnTo8);
      return is_finite;
    });
  }
  const bool has_5_bits = args.blocks == CodeBlocks::kQ5_K;
  return over_blocks(args, kColumns, has_5_bits ? 176 : 144, [&](BlockRows block, std::int64_t i) {
    const bool is_finite = store_k_scales(block, BlockNumbers(args, i, 8));
    if (has_5_bits) {
      pack_q5_k(block, args.to + i * kColumns * kColumnTo8);
      return is_finite;
    }
    std::uint8_t* const to = args.to + i * kColumns * kColumnTo4;
    for (std::int64_t k = 0; k < kColumns; k += 64) {
      pack_nibbles_32(block.rows, block.at + 16 + k / 2, to + k * kColumnTo4);
    }
    return is_finite;
  });
}

}  // namespace

bool pack_blocks_avx2(const PanelBlocksArgs& args) {
  switch (args.blocks) {
    case CodeBlocks::kQ4_0:
    case CodeBlocks::kQ4_1:
      return over_simple_blocks(args, 16, kColumnTo4,
                                [](BlockRows block, std::int64_t at, std::uint8_t* to) {
                                  pack_nibbles_16(block.rows, block.at + at, to);
                                });
    case CodeBlocks::kQ5_0:
    case CodeBlocks::kQ5_1: {
      const char middle = args.blocks == CodeBlocks::kQ5_0 ? 16 : 0;
      return over_simple_blocks(args, 20, kColumnTo8,
                                [&](BlockRows block, std::int64_t at, std::uint8_t* to) {
                                  pack_fifths(block, at, middle, to);
                                });
    }
    case CodeBlocks::kQ8_0:
      return over_simple_blocks(
          args, 32, kColumnTo8, [](BlockRows block, std::int64_t at, std::uint8_t* to) {
            pack_bytes(block.rows, block.at + at, to);
            pack_bytes(block.rows, block.at + at + kStepColumns, to + kStepColumns * kColumnTo8);
          });
    case CodeBlocks::kQ4_K:
    case CodeBlocks::kQ5_K:
    case CodeBlocks::kQ6_K: break;
  }
  return pack_k_blocks(args);
}

}  // namespace caption::kernels::cpu
