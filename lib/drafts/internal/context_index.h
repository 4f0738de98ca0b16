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

// The last token of a context, or its last two, and their hash.
class ContextKey {
 public:
  explicit ContextKey(std::int32_t last) : ContextKey(last, kAny) {}
  ContextKey(std::int32_t last, std::int32_t before)
      : tokens_(std::uint64_t{static_cast<std::uint32_t>(last)} << 32 |
                static_cast<std::uint32_t>(before)) {}
  std::uint64_t tokens() const { return tokens_; }
  std::uint64_t hash() const {
    const std::uint64_t mixed = (tokens_ ^ tokens_ >> 29) * 0x9E3779B97F4A7C15U;
    return (mixed ^ mixed << 31) >> 32;
  }

 private:
  static constexpr std::int32_t kAny = INT32_MIN;  // the token before a context of one token
  std::uint64_t tokens_;
};

class ContextIndex {
 public:
  // Indices of a run's order.
  struct Range {
    std::uint32_t begin;
    std::uint32_t end;
    std::size_t size() const { return end - begin; }
  };

  ContextIndex() = default;
  // `order` sorts positions of `tokens` by the tokens before them, read backwards.
  ContextIndex(std::span<const std::int32_t> tokens, std::span<const std::uint32_t> order);

  // The positions after the context; none where it does not occur.
  Range find(const ContextKey& key) const {
    for (std::size_t i = home_of(key); slots_[i].end != 0; i = after(i)) {
      if (slots_[i].key == key.tokens()) return {slots_[i].begin, slots_[i].end};
    }
    return {0, 0};
  }
  // Moves what find(key) reads first into the cache.
  void prefetch(const ContextKey& key) const { __builtin_prefetch(&slots_[home_of(key)]); }
  // False where the order is so short that a search finds its contexts as fast: find() and
  // prefetch() must not be called then.
  bool is_built() const { return !slots_.empty(); }
  std::int64_t size_bytes() const {
    return static_cast<std::int64_t>(slots_.capacity() * sizeof(Slot));
  }

 private:
  static constexpr double kSlotsPerContext = 1.5;

  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;  // 0: the slot is empty
  };
  std::size_t home_of(const ContextKey& key) const { return key.hash() * slots_.size() >> 32; }
  std::size_t after(std::size_t slot) const { return slot + 1 == slots_.size() ? 0 : slot + 1; }

  std::vector<Slot> slots_;
};

}  // namespace caption::drafts
