// Pages of bf16 and i8 into panels of pairs of bf16, which the tier's product takes.
#include "kernels/cpu/avx512bf16/page_rows.h"
#include "kernels/cpu/avx512bf16/panels.h"

namespace caption::kernels::cpu {
namespace {

// The keys first to first + 15 as 16 columns of a panel.
template <class Rows>
void pack_columns(const PackArgs& args, std::int64_t first, std::uint16_t* to) {
  const SixteenRows keys(args, first, args.dim * Rows::kBytes);
  const std::int64_t num_pairs = (args.dim + 1) / 2;
  for (std::int64_t first_pair = 0; first_pair < num_pairs; first_pair += Rows::kStepPairs) {
    __m512i pairs[Rows::kStepPairs];
    Rows::load_pairs(keys, args.dim, 2 * first_pair, pairs);
#pragma GCC unroll 32
    for (int i = 0; i < Rows::kStepPairs; ++i) {
      if (first_pair + i >= num_pairs) break;
      _mm512_storeu_si512(to + (first_pair + i) * kPairElements, pairs[i]);
    }
  }
}

template <class Rows>
void pack_keys(const PackArgs& args) {
  const std::int64_t panel_elements = (args.dim + 1) / 2 * kPairElements;
  auto* panel = static_cast<std::uint16_t*>(args.panels);
  for (std::int64_t j = 0; j < args.count; j += kPanelColumns, panel += panel_elements) {
    pack_columns<Rows>(args, j, panel);
    pack_columns<Rows>(args, j + kLanes, panel + 2 * kLanes);
  }
}

template <class Rows>
void pack_values(const PackArgs& args) {
  const std::int64_t panel_elements = (args.count + 1) / 2 * kPairElements;
  const std::int64_t bytes = args.dim * Rows::kBytes;
  auto* to = static_cast<std::uint16_t*>(args.panels);
  for (std::int64_t j = 0; j < args.count; j += 2, to += kPairElements) {
    if (args.upcoming != nullptr) ask_for(*args.upcoming, (2 * bytes + 63) / 64);
    for (std::int64_t d = 0; d < args.dim; d += 4 * kLanes) {
      __m512i pairs[4];
      load_value_pairs<Rows>(args, j, d, pairs);
      std::uint16_t* const panel = to + d / kPanelColumns * panel_elements;
      _mm512_storeu_si512(panel, pairs[0]);
      _mm512_storeu_si512(panel + 2 * kLanes, pairs[1]);
      if (d + kPanelColumns >= args.dim) continue;
      _mm512_storeu_si512(panel + panel_elements, pairs[2]);
      _mm512_storeu_si512(panel + panel_elements + 2 * kLanes, pairs[3]);
    }
  }
}

template <class Rows>
constexpr PagePacker kPacker = {
    .keys = pack_keys<Rows>, .values = pack_values<Rows>, .to_pairs = true};

}  // namespace

AttentionTier attention_avx512bf16(AttentionTier tier) {
  tier.pack[static_cast<int>(Element::kBF16)] = kPacker<Bf16Rows>;
  tier.pack[static_cast<int>(Element::kI8)] = kPacker<Int8Rows>;
  return tier;
}

}  // namespace caption::kernels::cpu
