// The AMX tier: the AVX512-BF16 tier, and products with panels on AMX's tile registers (Intel SDM
// volume 1, chapter 18): bf16 with f32 sums, 8-bit integers with 32-bit sums.
#include <immintrin.h>

#include "kernels/cpu/avx512/simd.h"
#include "kernels/cpu/avx512bf16/codes.h"
#include "kernels/cpu/avx512bf16/column_softmax.h"
#include "kernels/cpu/avx512bf16/panels.h"
#include "kernels/cpu/internal/group_scales.h"
#include "kernels/cpu/internal/tile_attention.h"
#include "kernels/cpu/internal/tile_gemm.h"

namespace caption::kernels::cpu {
namespace {

// The 64-byte memory operand of ldtilecfg, palette 1.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// Tiles 2 i + j hold the sums of (i, j), tiles 4 and 5 activations, tiles 6 and 7 weights.
//
// The class uses inline assembly because the intrinsics of g++ 12 do not tell the compiler that a
// tile load reads memory (or how many bytes ldtilecfg reads), so it may drop the preceding stores.
class AmxTiles {
 public:
  explicit AmxTiles(std::int64_t rows) {
    const auto first = static_cast<std::uint8_t>(rows < kTileRows ? rows : kTileRows);
    const auto second = static_cast<std::uint8_t>(rows - first);
    TileConfig config;
    set(config, 0, first);
    set(config, 1, first);
    set(config, 4, first);
    if (second > 0) {
      set(config, 2, second);
      set(config, 3, second);
      set(config, 5, second);
    }
    set(config, 6, kTileRows);
    set(config, 7, kTileRows);
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
  }
  ~AmxTiles() { __asm__ volatile("tilerelease" : :); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  template <int i, int j>
  void zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(2 * i + j));
  }
  template <int i, int j>
  void store(void* to, std::int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                     :
                     : "r"(to), "r"(stride), "i"(2 * i + j)
                     : "memory");
  }
  template <int i, int j>
  void load_sums(const void* from, std::int64_t stride) {
    load<2 * i + j>(from, stride);
  }
  template <int i>
  void load_a(const void* from, std::int64_t stride) {
    load<4 + i>(from, stride);
  }
  template <int j>
  void load_b(const void* from) {
    load<6 + j>(from, kPanelRowBytes);
  }
  template <int i, int j>
  void dot(BF16Product) {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "i"(2 * i + j), "i"(4 + i), "i"(6 + j));
  }
  template <int i, int j>
  void dot(IntegerProduct) {
    __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "i"(2 * i + j), "i"(4 + i), "i"(6 + j));
  }

 private:
  template <int tile>
  static void load(const void* from, std::int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                     :
                     : "r"(from), "r"(stride), "i"(tile)
                     : "memory");
  }
  static void set(TileConfig& config, int tile, std::uint8_t rows) {
    config.rows[tile] = rows;
    config.row_bytes[tile] = kTileBytes;
  }
};

template <class Codes, Element kScales>
void quantised_panel(const QuantisedArgs& args) {
  const Codes codes(args);
  tile_quantised<AmxTiles>(
      args,
      [&](std::int64_t pair, std::uint16_t* to) {
        __m512i first;
        __m512i last;
        codes.load(pair, first, last);
        _mm512_store_si512(to, first);
        _mm512_store_si512(to + kPanelColumns, last);
      },
      [&](std::int64_t group, std::int64_t m0, std::int64_t num_rows, const float* sums) {
        constexpr Element kRead = kReadScales<kScales>;
        alignas(64) float scales[kPanelColumns];
        alignas(64) float offsets[kPanelColumns];
        const GroupNumbers numbers{scales_of<Avx512, kScales>(args, group, scales),
                                   offsets_of<Avx512, kScales>(args, group, offsets)};
        for (std::int64_t m = m0; m < m0 + num_rows; ++m, sums += kPanelColumns) {
          const __m512 first = _mm512_load_ps(sums);
          const __m512 last = _mm512_load_ps(sums + Avx512::kWidth);
          if (numbers.offsets == nullptr) {
            add_group<Avx512, kRead, false>(args, {group, m, 0}, first, last, numbers);
          } else {
            add_group<Avx512, kRead, true>(args, {group, m, 0}, first, last, numbers);
          }
        }
      });
}

template <class Codes>
void quantised_panel(const QuantisedArgs& args) {
  call_with_scales<Avx512>(
      args, [&](auto scales) { quantised_panel<Codes, decltype(scales)::kValue>(args); });
}

// With few rows the vector instructions are faster than the tiles, whose latency is the same for
// one row as for 16. Both are exact.
constexpr std::int64_t kFewRowsOf8Bits = 2;
constexpr std::int64_t kFewRowsOf4Bits = 4;

void panel8a8(const IntegerArgs& args) {
  if (args.m <= kFewRowsOf8Bits) return panel8a8_avx512bf16(args);
  tile_panel8a8<AmxTiles>(args);
}

void panel4a8(const Integer4Args& args) {
  if (args.m <= kFewRowsOf4Bits) return panel4a8_avx512bf16(args);
  tile_panel4a8<AmxTiles>(args, [&](const QuadGroup& group, std::uint8_t* panel) {
    const Codes4A8 codes(args, group);
    for (std::int64_t quad = group.first_quad; quad < group.end_quad; ++quad) {
      __m512i first;
      __m512i last;
      codes.load(quad, first, last);
      _mm512_store_si512(panel, first);
      _mm512_store_si512(panel + kTileBytes, last);
      panel += kPanelRowBytes;
    }
  });
}

Tier make_tier() {
  Tier tier = avx512bf16_tier();
  tier.reads_tiled_rows = true;
  tier.panel_gemm = tile_panel_gemm<AmxTiles>;
  tier.panel8 = quantised_panel<Codes8>;
  tier.panel4 = quantised_panel<Codes4>;
  tier.panel_e4m3 = quantised_panel<CodesE4M3>;
  tier.panel8a8 = panel8a8;
  tier.panel4a8 = panel4a8;
  // The products of tiles add in an order of their own.
  constexpr Element kOfTiles[] = {Element::kBF16, Element::kI8};
  for (const Element element : kOfTiles) {
    tier.attention.few_queries[static_cast<int>(element)] = {};
  }
  tier.attention.query_panels.attend_block = attend_block<TilePanelProducts<AmxTiles>>;
  tier.attention.query_panels.depth_multiple = kTileDepth;
  return tier;
}

}  // namespace

const Tier& amx_tier() {
  static const Tier kTier = make_tier();
  return kTier;
}

}  // namespace caption::kernels::cpu
