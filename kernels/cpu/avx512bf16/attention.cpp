// Gathers pages of bf16 and i8 into panels of bf16 pairs, which this tier's product reads.
#include <immintrin.h>

#include "kernels/cpu/avx512bf16/page_rows.h"
#include "kernels/cpu/avx512bf16/panels.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kPairElements = 2 * kPanelColumns;

const char* row_at(const void* base, const PackArgs& args, const std::int64_t* slots,
                   std::int64_t j) {
  return static_cast<const char*>(base) + slots[j] * args.row_bytes;
}

// Writes up to 16 keys from key `first` on as 16 columns of a panel; the last key is repeated where
// there are fewer.
template <class Rows>
void pack_columns(const PackArgs& args, std::int64_t first, std::uint16_t* to) {
  const bool has_next = args.next_slots != nullptr;
  const char* rows[kLanes];
  const char* next[kLanes];
  for (std::int64_t i = 0; i < kLanes; ++i) {
    const std::int64_t j = first + i < args.count ? first + i : args.count - 1;
    rows[i] = row_at(args.base, args, args.slots, j);
    if (has_next) next[i] = row_at(args.next_base, args, args.next_slots, j);
  }
  const std::int64_t num_pairs = (args.dim + 1) / 2;
  for (std::int64_t pair = 0; pair < num_pairs; pair += Rows::kColumnPairs) {
    const std::int64_t at = pair * 2 * Rows::kBytes;
    if (has_next) {
      for (const char* const row : next) prefetch(row + at);
    }
    __m512i columns[16];
    load_columns([&](int i) { return rows[i] + at; }, args.dim * Rows::kBytes - at, columns);
    Rows::for_pairs(columns, [&](int i, __m512i pairs) {
      if (pair + i < num_pairs) _mm512_storeu_si512(to + (pair + i) * kPairElements, pairs);
    });
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
    const bool has_odd = j + 1 < args.count;
    const char* const even = row_at(args.base, args, args.slots, j);
    const char* const odd = has_odd ? row_at(args.base, args, args.slots, j + 1) : nullptr;
    if (args.next_slots != nullptr) {
      const char* const next = row_at(args.next_base, args, args.next_slots, j);
      const char* const next_odd = row_at(args.next_base, args, args.next_slots, j + has_odd);
      for (std::int64_t at = 0; at < bytes; at += 64) {
        prefetch(next + at);
        prefetch(next_odd + at);
      }
    }
    for (std::int64_t d = 0; d < args.dim; d += 64) {
      const std::int64_t at = d * Rows::kBytes;
      __m512i pairs[4];
      Rows::pair_rows({even + at, has_odd ? odd + at : nullptr, bytes - at}, pairs);
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
  set_few_queries_avx512bf16(tier);
  return tier;
}

}  // namespace caption::kernels::cpu
