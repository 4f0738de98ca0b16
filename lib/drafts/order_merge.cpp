#include "drafts/internal/order_merge.h"

#include <algorithm>

namespace caption::drafts {

Comparison compare_contexts(std::span<const std::int32_t> tokens, std::uint32_t a, std::uint32_t b,
                            std::uint8_t known) {
  const std::int32_t* from_a = tokens.data() + a - 1;
  const std::int32_t* from_b = tokens.data() + b - 1;
  for (std::ptrdiff_t i = known; i < kMaxContext; ++i) {
    if (from_a[-i] != from_b[-i]) {
      return {.shared = static_cast<std::uint8_t>(i), .is_less = from_a[-i] < from_b[-i]};
    }
    if (from_a[-i] == kBegin) break;
  }
  return {.shared = kMaxContext};
}

OrderEntry OrderMerge::Head::take() {
  OrderEntry entry = part.order[next];
  entry.position += part.shift;
  if (++next < part.order.size()) shared = part.shared[next];
  skip();
  return entry;
}

void OrderMerge::Head::skip() {
  while (next < part.order.size() && part.order[next].position < part.first) {
    if (++next < part.order.size()) shared = std::min(shared, part.shared[next]);
  }
}

bool OrderMerge::is_older_next(std::span<const std::int32_t> tokens) {
  if (older_.is_at_end() || newer_.is_at_end()) return newer_.is_at_end();
  if (older_.shared != newer_.shared) return older_.shared > newer_.shared;
  if (older_.shared == kMaxContext) return true;
  const Comparison comparison =
      compare_contexts(tokens, older_.position(), newer_.position(), older_.shared);
  const bool is_older = comparison.is_less || comparison.shared == kMaxContext;
  (is_older ? newer_ : older_).shared = comparison.shared;
  return is_older;
}

bool OrderMerge::advance(std::int64_t& steps, std::span<const std::int32_t> tokens,
                         RunArray<OrderEntry>& order, RunArray<std::uint8_t>& shared) {
  for (; steps > 0 && !(older_.is_at_end() && newer_.is_at_end()); --steps) {
    Head& head = is_older_next(tokens) ? older_ : newer_;
    shared[num_taken_] = head.shared;
    order[num_taken_++] = head.take();
  }
  return older_.is_at_end() && newer_.is_at_end();
}

}  // namespace caption::drafts
