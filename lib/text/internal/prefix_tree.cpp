#include "text/internal/prefix_tree.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/mend_advice.h"

namespace caption::text {
namespace {

// Far above what the prefixes of the largest published vocabulary (256,000 tokens) take, and bounds
// the tree's memory to 100 MB.
constexpr std::size_t kMaxSlots = 1 << 23;
constexpr std::size_t kNumBytes = 256;

// How many of the first free slots are tried for a node's children: bounds the time to build the
// tree, at the price of slots that stay free.
constexpr int kMaxTries = 64;

}  // namespace

// Places the nodes depth first. Free slots form a list in the order of their indices, so that a
// node with one child takes the first of them.
struct PrefixTree::Builder {
  // The texts entries[begin, end) share their first `depth` bytes, which lead to the slot `at`.
  struct Node {
    std::uint32_t at;
    std::size_t begin;
    std::size_t end;
    std::size_t depth;
  };

  std::vector<Entry> entries;
  std::vector<Slot> slots;
  std::vector<std::uint32_t> next_free;      // kFree at the end of the list
  std::vector<std::uint32_t> previous_free;  // kFree at its beginning
  std::uint32_t first_free = kFree;
  std::uint32_t last_free = kFree;

  void grow(std::size_t size) {
    if (size > kMaxSlots) {
      fail_unsupported(
          "the unigram tokenizer's tokens are too long: their prefixes need more than " +
          std::to_string(kMaxSlots) + " places");
    }
    for (std::size_t i = slots.size(); i < size; ++i) {
      slots.emplace_back();
      const auto slot = static_cast<std::uint32_t>(i);
      next_free.push_back(kFree);
      previous_free.push_back(last_free);
      (last_free == kFree ? first_free : next_free[last_free]) = slot;
      last_free = slot;
    }
  }

  void take(std::uint32_t slot, std::uint32_t parent) {
    const std::uint32_t before = previous_free[slot];
    const std::uint32_t after = next_free[slot];
    (before == kFree ? first_free : next_free[before]) = after;
    (after == kFree ? last_free : previous_free[after]) = before;
    slots[slot].parent = parent;
  }

  // Whether a base puts none of these bytes on a slot that is taken; slots that are not there yet
  // are free.
  bool fits(std::uint32_t base, const std::vector<std::uint8_t>& bytes) const {
    return std::all_of(bytes.begin(), bytes.end(), [&](std::uint8_t byte) {
      return base + byte >= slots.size() || slots[base + byte].parent == kFree;
    });
  }

  // The base at which the slots of all these bytes are free; `bytes` rises and is not empty. The
  // first free slots are tried, which nodes with one child always can take, and then the last
  // ones, where most are free.
  std::uint32_t find_base(const std::vector<std::uint8_t>& bytes) const {
    const std::uint32_t least = bytes.front();  // the slot of the first child at base 0
    std::uint32_t slot = first_free;
    while (slot != kFree && slot < least) slot = next_free[slot];  // the list rises
    for (int tries = 0; slot != kFree && tries < kMaxTries; ++tries, slot = next_free[slot]) {
      if (fits(slot - least, bytes)) return slot - least;
    }
    const auto size = static_cast<std::uint32_t>(slots.size());
    const std::uint32_t last = size - std::min<std::uint32_t>(size, 2 * kNumBytes);
    for (slot = std::max(last, least); slot < size; ++slot) {
      if (fits(slot - least, bytes)) return slot - least;
    }
    return std::max(size, least) - least;  // behind all others
  }

  void add_children(Node node, std::vector<Node>* nodes) {
    if (entries[node.begin].text.size() == node.depth) {
      slots[node.at].id = entries[node.begin].id;
      ++node.begin;
    }
    const std::size_t first_child = nodes->size();
    std::vector<std::uint8_t> bytes;
    for (std::size_t i = node.begin; i < node.end; ++i) {
      const auto byte = static_cast<std::uint8_t>(entries[i].text[node.depth]);
      if (bytes.empty() || bytes.back() != byte) {
        bytes.push_back(byte);
        nodes->push_back({.at = 0, .begin = i, .end = i, .depth = node.depth + 1});
      }
      ++nodes->back().end;
    }
    if (bytes.empty()) return;
    const std::uint32_t base = find_base(bytes);
    grow(base + kNumBytes);
    slots[node.at].base = base;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      (*nodes)[first_child + i].at = base + bytes[i];
      take(base + bytes[i], node.at);
    }
  }

  void build() {
    // std::string_view compares bytes as unsigned numbers.
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.text < b.text; });
    grow(kNumBytes);
    take(0, kNoParent);
    if (entries.empty()) return;
    std::vector<Node> nodes = {{.at = 0, .begin = 0, .end = entries.size(), .depth = 0}};
    while (!nodes.empty()) {
      const Node node = nodes.back();
      nodes.pop_back();
      add_children(node, &nodes);
    }
  }
};

PrefixTree::PrefixTree(std::vector<Entry> entries) {
  Builder builder;
  builder.entries = std::move(entries);
  builder.build();
  builder.grow(builder.slots.size() + kNumBytes);
  slots_ = std::move(builder.slots);
  slots_.shrink_to_fit();
}

}  // namespace caption::text
