// Packing scales and offsets of a panel's rows from where a file has them.
#include <immintrin.h>

#include "kernels/cpu/avx2/pack.h"
#include "kernels/cpu/avx2/panel_lines.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kEight = 8;  // numbers of a register of f32

template <Element kElement>
constexpr std::int64_t kNumberBytes = kElement == Element::kF32 ? 4 : 2;

template <Element kElement>
[[gnu::always_inline]] inline __m256 load_eight(const std::uint8_t* from) {
  if constexpr (kElement == Element::kF32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
  } else {
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    if constexpr (kElement == Element::kF16) return _mm256_cvtph_ps(eight);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16));
  }
}

// Remembers whether a number was too large or a NaN.
template <Element kElement>
class Bound {
 public:
  explicit Bound(float largest) : largest_(_mm256_set1_ps(largest)) {}
  [[gnu::always_inline]] void check_eight(const std::uint8_t* from) {
    const __m256 magnitudes = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), load_eight<kElement>(from));
    beyond_ = _mm256_or_ps(beyond_, _mm256_cmp_ps(magnitudes, largest_, _CMP_NLE_UQ));
  }
  bool holds() const { return _mm256_movemask_ps(beyond_) == 0; }

 private:
  __m256 largest_;
  __m256 beyond_ = _mm256_setzero_ps();
};

// Packs numbers that the file has row by row, those of its groups side by side.
template <Element kElement>
bool pack_rows(const PanelScalesArgs& args) {
  constexpr std::int64_t kBytes = kNumberBytes<kElement>;
  Bound<kElement> bound(args.largest);
  const std::uint8_t* rows[kPanelColumns];
  for (std::int64_t n = 0; n < kPanelColumns; ++n) {
    rows[n] = static_cast<const std::uint8_t*>(args.numbers) + n * args.row_stride * kBytes;
    for (std::int64_t g = 0; g < args.num_groups; g += kEight) {
      // The last eight may overlap with those before them.
      const std::int64_t last = args.num_groups - kEight;
      bound.check_eight(rows[n] + (g < last ? g : last) * kBytes);
    }
  }
  if (!bound.holds()) return false;
  const PanelRowsArgs of_rows{.rows = rows, .length = args.num_groups * kBytes, .to = args.to};
  if constexpr (kElement == Element::kF32) {
    pack_dwords_avx2(of_rows);
  } else {
    pack_words_avx2(of_rows);
  }
  return true;
}

// middle - zero of the 32 rows of a group, whose zeros are four words.
class Multiples {
 public:
  explicit Multiples(const PanelScalesArgs& args)
      : shifts_(args.has_even_rows_first ? _mm256_setr_epi32(0, 16, 4, 20, 8, 24, 12, 28)
                                         : _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28)),
        middle_(_mm256_set1_epi8(args.middle)) {}
  [[gnu::always_inline]] __m256i of(const std::uint32_t* words) const {
    const __m256i first = _mm256_packs_epi32(zeros_of(words[0]), zeros_of(words[1]));
    const __m256i last = _mm256_packs_epi32(zeros_of(words[2]), zeros_of(words[3]));
    // Packing is within lanes, each of which then has four rows of each word.
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i zeros = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, last), order);
    return _mm256_sub_epi8(middle_, zeros);
  }

 private:
  [[gnu::always_inline]] __m256i zeros_of(std::uint32_t word) const {
    const __m256i all = _mm256_set1_epi32(static_cast<int>(word));
    return _mm256_and_si256(_mm256_srlv_epi32(all, shifts_), _mm256_set1_epi32(15));
  }
  __m256i shifts_, middle_;
};

// Packs numbers that the file has group by group, those of its rows side by side.
template <Element kElement>
bool pack_groups(const PanelScalesArgs& args) {
  constexpr std::int64_t kBytes = kNumberBytes<kElement>;
  const Multiples multiples(args);
  Bound<kElement> bound(args.largest);
  auto* to = static_cast<std::uint8_t*>(args.to);
  for (std::int64_t g = 0; g < args.num_groups; ++g) {
    const auto* const from =
        static_cast<const std::uint8_t*>(args.numbers) + g * args.group_stride * kBytes;
    for (std::int64_t n = 0; n < kPanelColumns; n += kEight) bound.check_eight(from + n * kBytes);
    for (std::int64_t at = 0; at < kPanelColumns * kBytes; at += kLineBytes) {
      const auto* const halves = reinterpret_cast<const __m256i*>(from + at);
      store_line(to, _mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1));
      to += kLineBytes;
    }
    if (args.zeros == nullptr) continue;
    store_half_line(args.offsets + g * kPanelColumns,
                    multiples.of(args.zeros + g * args.zero_stride));
  }
  return bound.holds();
}

template <Element kElement>
bool pack(const PanelScalesArgs& args) {
  const bool has_rows_together = args.row_stride == 1;
  if (args.num_rows < kPanelColumns) return pack_scales_reference(args);
  if (has_rows_together) return pack_groups<kElement>(args);
  if (args.num_groups < kEight || args.zeros != nullptr || args.group_stride != 1) {
    return pack_scales_reference(args);
  }
  return pack_rows<kElement>(args);
}

}  // namespace

bool pack_scales_avx2(const PanelScalesArgs& args) {
  switch (args.element) {
    case Element::kBF16: return pack<Element::kBF16>(args);
    case Element::kF16: return pack<Element::kF16>(args);
    default: return pack<Element::kF32>(args);
  }
}

}  // namespace caption::kernels::cpu
