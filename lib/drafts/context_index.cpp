#include "drafts/internal/context_index.h"

#include <bit>
#include <cstring>
#include <numeric>

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
// A step finds a context, or as many of its positions.
constexpr std::size_t kPositionsPerStep = 256;

}  // namespace

ContextList::ContextList(std::span<const std::int32_t> tokens, std::span<const OrderEntry> order,
                         std::span<const std::uint8_t> shared)
    : tokens_(tokens),
      order_(order),
      shared_(shared),
      most_(static_cast<std::size_t>(kMostContexts * static_cast<double>(order.size())) + 1),
      least_split_(kLeastSplit) {
  items_.reserve(most_ + 1);
  begin();
}

void ContextList::begin() {
  items_.clear();
  num_of_width_.fill(0);
  groups_.clear();
  if (!order_.empty()) {
    groups_.push_back({.positions = {0, static_cast<std::uint32_t>(order_.size())}});
  }
}

bool ContextList::advance(std::int64_t& steps) {
  for (; steps > 0 && !groups_.empty(); --steps) {
    steps -= static_cast<std::int64_t>(append_child() / kPositionsPerStep);
    if (items_.size() <= most_) continue;
    least_split_ *= 2;
    begin();
  }
  return groups_.empty();
}

std::uint32_t ContextList::end_of_child(const Group& group) const {
  const auto [begin, end] = group.positions;
  const void* found = std::memchr(shared_.data() + begin + 1, group.length, end - begin - 1);
  if (found == nullptr) return end;
  return static_cast<std::uint32_t>(static_cast<const std::uint8_t*>(found) - shared_.data());
}

std::size_t ContextList::append_child() {
  const Group group = groups_.back();
  const IndexRange child = {group.positions.begin, end_of_child(group)};
  groups_.back().positions.begin = child.end;
  if (child.end == group.positions.end) groups_.pop_back();
  const std::uint32_t first = order_[child.begin].position;
  const std::int32_t token = tokens_[first - 1 - group.length];
  const ContextHash hash = group.hash.before(token);
  items_.push_back({.hash = hash, .positions = child, .first = first});
  ++num_of_width_[static_cast<std::size_t>(std::bit_width(child.size()))];
  const auto length = static_cast<std::uint8_t>(group.length + 1);
  if (child.size() >= least_split_ && token != kBegin && length < kMaxContext) {
    groups_.push_back({.hash = hash, .positions = child, .length = length});
  }
  return child.size();
}

std::size_t ContextList::num_with(int power) const {
  return std::accumulate(num_of_width_.begin() + power + 1, num_of_width_.end(), std::size_t{0});
}

ContextIndex::ContextIndex(const ContextList& contexts)
    : least_split_(contexts.least_split()),
      slots_(static_cast<std::size_t>(kSlotsPerContext *
                                      static_cast<double>(contexts.items().size())) +
             1) {}

void ContextIndex::insert(const ContextItem& context) {
  std::size_t slot = context.hash.slot_of(slots_.size());
  while (slots_[slot].positions.end != 0) slot = after(slot);
  slots_[slot] = {
      .mark = context.hash.mark(), .position = context.first, .positions = context.positions};
}

}  // namespace caption::drafts
