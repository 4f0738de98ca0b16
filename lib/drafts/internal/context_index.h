// drafts/internal/context_index.h: where the positions of short contexts lie in a run's order.
//
// A hash table with linear probing of all contexts of one and of two tokens. A position is in two
// of them, so that the table takes at most 2 * kSlotsPerContext slots per position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace caption::drafts {

inline constexpr std::int32_t kBegin = -1;  // stands before every text

class ContextIndex {
 public:
  // Indices of a run's order.
  struct Range {
    std::uint32_t begin;
    std::uint32_t end;
  };

  ContextIndex() = default;
  // `order` sorts positions of `tokens` by the tokens before them, read backwards.
  ContextIndex(std::span<const std::int32_t> tokens, std::span<const std::uint32_t> order);

  // The positions after `last`; none where it does not occur.
  Range find(std::int32_t last) const { return find_key(key_of(last, kAny)); }
  // The positions after `before` and `last`, likewise. kBegin has no token before it.
  Range find(std::int32_t before, std::int32_t last) const {
    return find_key(key_of(last, before));
  }
  // Moves what find(before, last) reads first into the cache.
  void prefetch(std::int32_t before, std::int32_t last) const {
    if (!is_built()) return;
    const Slot* const home = &slots_[home_of(key_of(last, before))];
    __builtin_prefetch(home);
    __builtin_prefetch(home + 4);  // the next cache line
  }
  // False where the order is so short that a search finds its contexts as fast.
  bool is_built() const { return !slots_.empty(); }
  std::int64_t size_bytes() const {
    return static_cast<std::int64_t>(slots_.capacity() * sizeof(Slot));
  }

 private:
  static constexpr std::int32_t kAny = INT32_MIN;  // the token before a context of one token
  static constexpr double kSlotsPerContext = 1.5;

  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;  // 0: the slot is empty
  };
  static std::uint64_t key_of(std::int32_t last, std::int32_t before) {
    return std::uint64_t{static_cast<std::uint32_t>(last)} << 32 |
           static_cast<std::uint32_t>(before);
  }
  std::size_t home_of(std::uint64_t key) const {
    const std::uint64_t mixed = (key ^ key >> 29) * 0x9E3779B97F4A7C15U;
    return ((mixed ^ mixed << 31) >> 32) * slots_.size() >> 32;
  }
  Range find_key(std::uint64_t key) const {
    for (std::size_t i = home_of(key); slots_[i].end != 0; i = after(i)) {
      if (slots_[i].key == key) return {slots_[i].begin, slots_[i].end};
    }
    return {0, 0};
  }
  std::size_t after(std::size_t slot) const { return slot + 1 == slots_.size() ? 0 : slot + 1; }
  void insert(const Slot& slot);

  std::vector<Slot> slots_;
};

}  // namespace caption::drafts
