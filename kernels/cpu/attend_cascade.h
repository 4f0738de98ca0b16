// kernels/cpu/attend_cascade.h: finds the leading blocks of keys that several sequences of a call
// share, so that attention reads them once for all of these sequences (cascade attention).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/paged_attention.h"

namespace caption::kernels::cpu {

// The blocks of keys [first_block, end_block) that the sequences order[first], ..., order[first +
// count - 1] have in common; with count 1, all remaining blocks of that sequence.
struct Segment {
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::int64_t first_block = 0;
  std::int64_t end_block = 0;
  // Segments of one level are independent; a level needs the results of the levels before it.
  std::int32_t level = 0;
};

// Splits a call with S sequences into at most 2 S - 1 segments, ordered by level. `order` and
// `common` are [S], `segments` has room for 2 S; `common` is working memory. A sequence with key
// clusters shares no segment that has blocks.
std::span<Segment> find_segments(const PagedContext& context, std::span<std::int32_t> order,
                                 std::span<std::int64_t> common, Segment* segments);

}  // namespace caption::kernels::cpu
