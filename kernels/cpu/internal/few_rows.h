// kernels/cpu/internal/few_rows.h: the rows that FewQueries reads at a time.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention_tier.h"

namespace caption::kernels::cpu {

// kFewKeys rows from row `first` on, and the rows after them, which are prefetched. The last row is
// repeated where there are fewer. It depends on Tag, a type of the tier's, so that each tier
// compiles its own.
template <class Tag>
struct FewRows {
  const char* rows[kFewKeys];
  const char* next[kFewKeys];

  FewRows(const FewQueriesArgs& args, std::int64_t first) {
    const auto* const base = static_cast<const char*>(args.base);
    const auto* const next_base = static_cast<const char*>(args.next_base);
    for (std::int64_t i = 0; i < kFewKeys; ++i) {
      const std::int64_t j = first + i < args.count ? first + i : args.count - 1;
      rows[i] = base + args.slots[j] * args.row_bytes;
      next[i] = rows[i];
      if (const std::int64_t after = first + kFewKeys + i; after < args.count) {
        next[i] = base + args.slots[after] * args.row_bytes;
      } else if (i < args.next_count) {
        next[i] = next_base + args.next_slots[i] * args.row_bytes;
      }
    }
  }
};

}  // namespace caption::kernels::cpu
