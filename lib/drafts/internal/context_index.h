// drafts/internal/context_index.h: where the positions after a context lie in a run's order.
//
// The contexts form a tree: the children of a context are those with one more token before it. A
// hash table with linear probing has the contexts of one token and the children of each context
// that many positions have. A search goes down the tree until few positions are left, which are
// then compared one by one. A position is in one context with few positions at most, so that the
// table has at most 1 + kMaxContext / least_split contexts per position.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "drafts/internal/run_array.h"

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

// A context and the positions after it.
struct ContextItem {
  ContextHash hash;
  IndexRange positions{};
  std::uint32_t first = 0;  // the first of these positions in the order
};

// The largest least_split.
inline constexpr std::size_t kMostUnsplit = 128;

// The contexts of a run that an index has, found in pieces. `order` sorts positions of `tokens` by
// the tokens before them, read backwards; `shared` is TokenRun::shared. All are borrowed.
class ContextList {
 public:
  ContextList(std::span<const std::int32_t> tokens, std::span<const OrderEntry> order,
              std::span<const std::uint8_t> shared);

  // Takes from `steps` as many as it computes, until none is left or the list is complete; returns
  // whether it is.
  bool advance(std::int64_t& steps);

  // items(), least_split() and num_with() are for a complete list.
  std::span<const ContextItem> items() const { return items_; }
  // Contexts of at least so many positions have their children, too.
  std::size_t least_split() const { return least_split_; }
  // Contexts of at least 2^power positions.
  std::size_t num_with(int power) const;

 private:
  // Positions that have the same `length` tokens before them, from the first on that the list does
  // not have with one token more.
  struct Group {
    ContextHash hash = {};
    IndexRange positions{};
    std::uint8_t length = 0;
  };

  void begin();
  // The end of the positions from the group's first on that share more than the group's tokens.
  std::uint32_t end_of_child(const Group& group) const;
  // Appends the next child of the last group; returns the number of its positions.
  std::size_t append_child();

  const std::span<const std::int32_t> tokens_;
  const std::span<const OrderEntry> order_;
  const std::span<const std::uint8_t> shared_;
  const std::size_t most_;  // items
  std::size_t least_split_;
  RunArray<ContextItem> items_;
  std::vector<Group> groups_;                   // those with children that are not in the list yet
  std::array<std::size_t, 33> num_of_width_{};  // [i]: items whose number of positions has i bits
};

class ContextIndex {
 public:
  struct Entry {
    std::uint32_t mark = 0;      // ContextHash::mark() of the context
    std::uint32_t position = 0;  // the first of its positions
    IndexRange positions{};      // none: the slot is empty
  };

  ContextIndex() = default;
  // Has room for the contexts of a complete list.
  explicit ContextIndex(const ContextList& contexts);

  void insert(const ContextItem& context);

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
  // Is cleared before the first insert().
  std::span<std::byte> memory() { return std::as_writable_bytes(std::span(slots_)); }
  void want_huge_pages() { drafts::want_huge_pages(slots_); }
  // Frees the memory; returns whether it was large.
  bool clear() { return drafts::clear(slots_); }

 private:
  std::size_t after(std::size_t slot) const { return slot + 1 == slots_.size() ? 0 : slot + 1; }

  std::size_t least_split_ = 0;
  RunArray<Entry> slots_;
};

}  // namespace caption::drafts
