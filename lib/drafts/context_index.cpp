#include "drafts/internal/context_index.h"

namespace caption::drafts {

ContextIndex::ContextIndex(std::span<const std::int32_t> tokens,
                           std::span<const std::uint32_t> order) {
  constexpr std::size_t kShort = 512;
  constexpr std::size_t kAhead = 16;
  if (order.size() < kShort) return;
  std::vector<Slot> contexts;
  contexts.reserve(order.size() / 4);
  std::size_t one = order.size() * 2;  // the latest context of one token, and of two, in contexts
  std::size_t two = one;
  const auto count = [&contexts](std::size_t& latest, std::uint64_t key, std::uint32_t index) {
    if (latest >= contexts.size() || contexts[latest].key != key) {
      latest = contexts.size();
      contexts.push_back({.key = key, .begin = index});
    }
    contexts[latest].end = index + 1;
  };
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    if (i + kAhead < order.size()) __builtin_prefetch(tokens.data() + order[i + kAhead] - 1);
    const std::int32_t last = tokens[order[i] - 1];
    count(one, key_of(last, kAny), i);
    if (last != kBegin) count(two, key_of(last, tokens[order[i] - 2]), i);
  }
  slots_.resize(static_cast<std::size_t>(kSlotsPerContext * static_cast<double>(contexts.size())) +
                1);
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    if (i + kAhead < contexts.size()) {
      __builtin_prefetch(&slots_[home_of(contexts[i + kAhead].key)], 1);
    }
    insert(contexts[i]);
  }
}

void ContextIndex::insert(const Slot& slot) {
  std::size_t i = home_of(slot.key);
  while (slots_[i].end != 0) i = after(i);
  slots_[i] = slot;
}

}  // namespace caption::drafts
