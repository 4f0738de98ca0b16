// kernels/cpu/attend_cascade.h: which sequences of a call share their first pages, and for how long
// (cascade attention: what is shared is read once for all of them).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/paged_attention.h"

namespace caption::kernels::cpu {

// Blocks of keys [first_block, end_block) that the sequences order[first], ...,
// order[first + count - 1] have in common; for one alone, all that are left.
struct Segment {
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::int64_t first_block = 0;
  std::int64_t end_block = 0;
  std::int32_t level = 0;  // segments of one level are independent; a level follows the one before
};

// A call's S sequences as at most 2 S - 1 segments, level after level. `order` and `common` are
// [S]; `common` is room to work in. Sequences with key clusters share nothing: they come as
// segments of their own.
std::span<Segment> find_segments(const PagedContext& context, std::span<std::int32_t> order,
                                 std::span<std::int64_t> common, Segment* segments);

}  // namespace caption::kernels::cpu
