#include "drafts/internal/context_index.h"

#include <cstring>

namespace caption::drafts {
namespace {

// Contexts of fewer positions have no children in an index, unless these are more than
// kMostContexts per position of the run.
constexpr std::size_t kLeastSplit = 8;
// Slots per context, and the most contexts per position: 32 bytes per position.
constexpr double kSlotsPerContext = 1.5;
constexpr double kMostContexts = 4.0 / 3;
// At kMostUnsplit there are fewer.
static_assert(1.0 + static_cast<double>(kMaxContext) / kMostUnsplit < kMostContexts);

class Collector {
 public:
  Collector(std::span<const std::int32_t> tokens, std::span<const OrderEntry> order,
            std::span<const std::uint8_t> shared)
      : tokens_(tokens), order_(order), shared_(shared) {}

  // Appends the contexts to `items`. Returns false where there are more than `most`.
  bool collect(std::size_t least_split, std::size_t most, std::vector<ContextList::Item>& items) {
    groups_ = {{.positions = {0, static_cast<std::uint32_t>(order_.size())}}};
    while (!groups_.empty() && items.size() <= most) {
      const Group group = groups_.back();
      groups_.pop_back();
      split(group, least_split, items);
    }
    return items.size() <= most;
  }

 private:
  // Positions that have the same `length` tokens before them.
  struct Group {
    ContextHash hash = {};
    IndexRange positions{};
    std::uint8_t length = 0;
  };

  // The end of the positions from `begin` on that share more than the group's tokens.
  std::uint32_t end_of_child(const Group& group, std::uint32_t begin) const {
    const std::uint32_t end = group.positions.end;
    const void* found = std::memchr(shared_.data() + begin + 1, group.length, end - begin - 1);
    if (found == nullptr) return end;
    return static_cast<std::uint32_t>(static_cast<const std::uint8_t*>(found) - shared_.data());
  }

  void split(const Group& group, std::size_t least_split, std::vector<ContextList::Item>& items) {
    for (std::uint32_t begin = group.positions.begin; begin < group.positions.end;) {
      const IndexRange child = {begin, end_of_child(group, begin)};
      const std::uint32_t first = order_[begin].position;
      const std::int32_t token = tokens_[first - 1 - group.length];
      const ContextHash hash = group.hash.before(token);
      items.push_back({.hash = hash, .positions = child, .first = first});
      const auto length = static_cast<std::uint8_t>(group.length + 1);
      if (child.size() >= least_split && token != kBegin && length < kMaxContext) {
        groups_.push_back({.hash = hash, .positions = child, .length = length});
      }
      begin = child.end;
    }
  }

  std::span<const std::int32_t> tokens_;
  std::span<const OrderEntry> order_;
  std::span<const std::uint8_t> shared_;
  std::vector<Group> groups_;  // not yet split
};

}  // namespace

ContextList list_contexts(std::span<const std::int32_t> tokens, std::span<const OrderEntry> order,
                          std::span<const std::uint8_t> shared) {
  Collector collector(tokens, order, shared);
  const auto most = static_cast<std::size_t>(kMostContexts * static_cast<double>(order.size())) + 1;
  ContextList list{.items = {}, .least_split = kLeastSplit};
  list.items.reserve(order.size() / 2);
  while (!collector.collect(list.least_split, most, list.items)) {
    list.items.clear();
    list.least_split *= 2;
  }
  return list;
}

ContextIndex::ContextIndex(const ContextList& contexts)
    : least_split_(contexts.least_split),
      slots_(
          static_cast<std::size_t>(kSlotsPerContext * static_cast<double>(contexts.items.size())) +
          1) {
  constexpr std::size_t kAhead = 16;
  const std::vector<ContextList::Item>& items = contexts.items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i + kAhead < items.size()) prefetch(items[i + kAhead].hash);
    std::size_t slot = items[i].hash.slot_of(slots_.size());
    while (slots_[slot].positions.end != 0) slot = after(slot);
    slots_[slot] = {
        .mark = items[i].hash.mark(), .position = items[i].first, .positions = items[i].positions};
  }
}

}  // namespace caption::drafts
