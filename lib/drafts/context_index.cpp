#include "drafts/internal/context_index.h"

namespace caption::drafts {

ContextIndex::ContextIndex(std::span<const std::int32_t> tokens,
                           std::span<const std::uint32_t> order) {
  constexpr std::size_t kShort = 512;
  constexpr std::size_t kAhead = 16;
  if (order.size() < kShort) return;
  struct Context {
    ContextKey key;
    Range range;
  };
  std::vector<Context> contexts;
  contexts.reserve(order.size() / 4);
  std::size_t one = order.size() * 2;  // the latest context of one token, and of two, in contexts
  std::size_t two = one;
  const auto count = [&contexts](std::size_t& latest, const ContextKey& key, std::uint32_t index) {
    if (latest >= contexts.size() || contexts[latest].key.tokens() != key.tokens()) {
      latest = contexts.size();
      contexts.push_back({.key = key, .range = {.begin = index, .end = index}});
    }
    contexts[latest].range.end = index + 1;
  };
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    if (i + kAhead < order.size()) __builtin_prefetch(tokens.data() + order[i + kAhead] - 1);
    const std::int32_t last = tokens[order[i] - 1];
    count(one, ContextKey(last), i);
    if (last != kBegin) count(two, ContextKey(last, tokens[order[i] - 2]), i);
  }
  slots_.resize(static_cast<std::size_t>(kSlotsPerContext * static_cast<double>(contexts.size())) +
                1);
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    if (i + kAhead < contexts.size()) prefetch(contexts[i + kAhead].key);
    std::size_t slot = home_of(contexts[i].key);
    while (slots_[slot].end != 0) slot = after(slot);
    slots_[slot] = {.key = contexts[i].key.tokens(),
                    .begin = contexts[i].range.begin,
                    .end = contexts[i].range.end};
  }
}

}  // namespace caption::drafts
