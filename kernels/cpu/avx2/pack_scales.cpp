// Packing scales and offsets of a panel's rows from where a file has them.
#include <immintrin.h>

#include "kernels/cpu/avx2/pack.h"
#include "kernels/cpu/avx2/panel_lines.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kEight = 8;  // numbers of a register
constexpr std::int64_t kLineFloats = 16;

template <Element kElement>
[[gnu::always_inline]] inline __m256 load_eight(const void* numbers, std::int64_t at) {
  if constexpr (kElement == Element::kF32) {
    return _mm256_loadu_ps(static_cast<const float*>(numbers) + at);
  } else {
    const auto* const halves = static_cast<const std::uint16_t*>(numbers) + at;
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves));
    if constexpr (kElement == Element::kF16) return _mm256_cvtph_ps(eight);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16));
  }
}

[[gnu::always_inline]] inline void store_floats(float* to, __m256 first, __m256 last) {
  store_line(reinterpret_cast<std::uint8_t*>(to), _mm256_castps_si256(first),
             _mm256_castps_si256(last));
}

// Remembers whether a number was too large or a NaN.
class Bound {
 public:
  explicit Bound(float largest) : largest_(_mm256_set1_ps(largest)) {}
  [[gnu::always_inline]] void check(__m256 numbers) {
    const __m256 magnitudes = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), numbers);
    beyond_ = _mm256_or_ps(beyond_, _mm256_cmp_ps(magnitudes, largest_, _CMP_NLE_UQ));
  }
  bool holds() const { return _mm256_movemask_ps(beyond_) == 0; }

 private:
  __m256 largest_;
  __m256 beyond_ = _mm256_setzero_ps();
};

// Exchanges rows and columns of 8 x 8 numbers.
[[gnu::always_inline]] inline void transpose_eight(__m256 (&r)[kEight]) {
  __m256 pairs[kEight];
  for (int i = 0; i < kEight; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  __m256 quads[kEight];
  for (int i = 0; i < kEight; i += 4) {
    quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
    quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
  }
  for (int i = 0; i < kEight / 2; ++i) {
    r[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
  }
}

// Packs numbers that the file has row by row, those of its groups side by side: eight groups of 16
// rows at a time. The last eight may overlap with those before them.
template <Element kElement>
bool pack_rows(const PanelScalesArgs& args) {
  Bound bound(args.largest);
  for (std::int64_t g = 0; g < args.num_groups; g += kEight) {
    if (g > args.num_groups - kEight) g = args.num_groups - kEight;
    for (std::int64_t n = 0; n < kPanelColumns; n += kLineFloats) {
      __m256 first[kEight];
      __m256 last[kEight];
      for (std::int64_t i = 0; i < kEight; ++i) {
        first[i] = load_eight<kElement>(args.numbers, (n + i) * args.row_stride + g);
        last[i] = load_eight<kElement>(args.numbers, (n + kEight + i) * args.row_stride + g);
        bound.check(first[i]);
        bound.check(last[i]);
      }
      transpose_eight(first);
      transpose_eight(last);
      float* const to = args.to + g * kPanelColumns + n;
      for (std::int64_t i = 0; i < kEight; ++i) {
        store_floats(to + i * kPanelColumns, first[i], last[i]);
      }
    }
  }
  finish_lines();
  return bound.holds();
}

// Packs numbers that the file has group by group, those of its rows side by side.
template <Element kElement>
bool pack_groups(const PanelScalesArgs& args) {
  const __m256i shifts = args.has_even_rows_first ? _mm256_setr_epi32(0, 16, 4, 20, 8, 24, 12, 28)
                                                  : _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  const __m256 middle = _mm256_set1_ps(args.middle);
  Bound bound(args.largest);
  for (std::int64_t g = 0; g < args.num_groups; ++g) {
    for (std::int64_t n = 0; n < kPanelColumns; n += kLineFloats) {
      const __m256 first = load_eight<kElement>(args.numbers, g * args.group_stride + n);
      const __m256 last = load_eight<kElement>(args.numbers, g * args.group_stride + n + kEight);
      bound.check(first);
      bound.check(last);
      store_floats(args.to + g * kPanelColumns + n, first, last);
      if (args.zeros == nullptr) continue;
      const std::uint32_t* const words = args.zeros + g * args.zero_stride + n / kEight;
      const auto offset_of = [&](std::uint32_t word, __m256 scales) {
        const __m256i nibbles =
            _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(word)), shifts),
                             _mm256_set1_epi32(15));
        return _mm256_mul_ps(scales, _mm256_sub_ps(middle, _mm256_cvtepi32_ps(nibbles)));
      };
      store_floats(args.offsets + g * kPanelColumns + n, offset_of(words[0], first),
                   offset_of(words[1], last));
    }
  }
  finish_lines();
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
