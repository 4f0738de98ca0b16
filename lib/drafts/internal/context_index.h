// drafts/internal/context_index.h: where the positions after a context lie in a run's order.
//
// The contexts form a tree: the children of a context are those with one more token before it. A
// hash table with linear probing has the contexts of one token and the children of each context
// that many positions have. A search goes down the tree until few positions are left, which are
// then compared one by one. A position is in one context with few positions at most, so that the
// table has at most 1 + kMaxContext / least_split contexts per position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace caption::drafts {

inline constexpr std::int32_t kBegin = -1;       // stands before every text
inline constexpr std::int64_t kMaxContext = 24;  // tokens

// A position of a run, and the tokens from there on, so that those of adjacent positions of the
// order are read together.
struct OrderEntry {
  static constexpr std::ptrdiff_t kNumNext = 3;
  std::uint32_t position;
  std::int32_t next[kNumNext];  // kBegin from the end of the text on
};

// Indices of a run's order.
struct IndexRange {
  std::uint32_t begin;
  std::uint32_t end;
  std::size_t size() const { return end - begin; }
};

// The hash of the last tokens of a context, which are added from the last on.
class ContextHash {
 public:
  ContextHash before(std::int32_t token) const {
    const std::uint64_t mixed = (value_ ^ static_cast<std::uint32_t>(token)) * 0x9E3779B97F4A7C15U;
    ContextHash longer;
    longer.value_ = mixed ^ mixed >> 32;
    return longer;
  }
  // The slot of a table of `size` < 2^32 where a search begins.
  std::size_t slot_of(std::size_t size) const { return (value_ >> 32) * size >> 32; }
  // Tells contexts apart that have the same slot.
  std::uint32_t mark() const { return static_cast<std::uint32_t>(value_); }

 private:
  std::uint64_t value_ = 0x632BE59BD9B4E019U;  // the hash of no token
};

// The contexts of a run that an index has.
struct ContextList {
  struct Item {
    ContextHash hash;
    IndexRange positions{};
    std::uint32_t first = 0;  // the first of these positions in the order
  };
  std::vector<Item> items;
  std::size_t least_split = 0;  // contexts of at least so many positions have their children, too
};

// The largest least_split.
inline constexpr std::size_t kMostUnsplit = 128;

// `order` sorts positions of `tokens` by the tokens before them, read backwards; `shared` is
// TokenRun::shared.
ContextList list_contexts(std::span<const std::int32_t> tokens, std::span<const OrderEntry> order,
                          std::span<const std::uint8_t> shared);

class ContextIndex {
 public:
  struct Entry {
    std::uint32_t mark = 0;      // ContextHash::mark() of the context
    std::uint32_t position = 0;  // the first of its positions
    IndexRange positions{};      // none: the slot is empty
  };

  ContextIndex() = default;
  explicit ContextIndex(const ContextList& contexts);

  // The entry of a context; one without positions where the table does not have it.
  Entry find(ContextHash hash) const {
    std::size_t i = hash.slot_of(slots_.size());
    while (slots_[i].positions.end != 0 && slots_[i].mark != hash.mark()) i = after(i);
    return slots_[i];
  }
  // Moves what find(hash) reads first into the cache.
  void prefetch(ContextHash hash) const {
    __builtin_prefetch(&slots_[hash.slot_of(slots_.size())]);
  }
  std::size_t least_split() const { return least_split_; }
  std::int64_t size_bytes() const {
    return static_cast<std::int64_t>(slots_.capacity() * sizeof(Entry));
  }

 private:
  std::size_t after(std::size_t slot) const { return slot + 1 == slots_.size() ? 0 : slot + 1; }

  std::size_t least_split_ = 0;
  std::vector<Entry> slots_;
};

}  // namespace caption::drafts
