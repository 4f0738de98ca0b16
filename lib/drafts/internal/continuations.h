// drafts/internal/continuations.h: what follows the contexts that many positions of a run have.
//
// The guesses after such a context are counted once, when its run is made, and found by a hash
// table with linear probing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "drafts/internal/context_index.h"

namespace caption::drafts {

// The guesses after a context. It has the size of a cache line.
struct alignas(64) Continuation {
  static constexpr std::int64_t kMost = 8;  // guesses

  std::int32_t tokens[kMost] = {};
  std::uint8_t counts[kMost] = {};  // [i]: the places that have the first i + 1 tokens
  std::uint32_t mark = 0;           // ContextHash::mark() of the context
  std::uint8_t total = 0;           // places that were looked at; 0: the slot is empty
  std::uint8_t num_guesses = 0;     // fewer than kMost where all texts have ended
};

class Continuations {
 public:
  Continuations() = default;
  // Has room for the contexts of a complete list that at least least() positions of the
  // run, which has num_positions, have; that of a short run has room for none.
  Continuations(const ContextList& contexts, std::size_t num_positions);

  // Counts the guesses after a context of at least least() positions, which `order` has of
  // `tokens`.
  void insert(const ContextItem& context, std::span<const std::int32_t> tokens,
              std::span<const OrderEntry> order);

  // Null where the table does not have the context, which at least least() positions have.
  const Continuation* find(ContextHash hash) const {
    std::size_t i = hash.slot_of(slots_.size());
    while (slots_[i].total != 0 && slots_[i].mark != hash.mark()) i = after(i);
    return slots_[i].total != 0 ? &slots_[i] : nullptr;
  }
  // Moves what find(hash) reads first into the cache.
  void prefetch(ContextHash hash) const {
    __builtin_prefetch(slots_.data() + hash.slot_of(slots_.size()));
  }
  std::size_t least() const { return least_; }
  // Is cleared before the first insert().
  std::span<std::byte> memory() { return std::as_writable_bytes(std::span(slots_)); }
  void want_huge_pages() { drafts::want_huge_pages(slots_); }
  // Frees the memory; returns whether it was large.
  bool clear() { return drafts::clear(slots_); }
  std::int64_t size_bytes() const {
    return static_cast<std::int64_t>(slots_.capacity() * sizeof(Continuation));
  }

 private:
  std::size_t after(std::size_t slot) const { return slot + 1 == slots_.size() ? 0 : slot + 1; }

  std::size_t least_ = SIZE_MAX;
  RunArray<Continuation> slots_;
};

}  // namespace caption::drafts
