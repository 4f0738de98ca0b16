// drafts/internal/places.h: places of texts, and the tokens that come after them.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "drafts/internal/context_index.h"
#include "drafts/token_archive.h"

namespace caption::drafts {

// Up to 64 places of texts, each before its next token. A set of them is a mask: bit i is the i-th.
class Places {
 public:
  static constexpr std::size_t kMost = 64;

  // Adds a place of a run with these tokens, and prefetches the entry. At most kMost are added.
  void add(const std::int32_t* tokens, const OrderEntry* entry) {
    __builtin_prefetch(entry);
    tokens_[num_added_] = tokens;
    entries_[num_added_++] = entry;
  }
  std::size_t num_added() const { return num_added_; }
  std::uint64_t all() const {
    return num_added_ == 0 ? 0 : ~std::uint64_t{0} >> (kMost - num_added_);
  }
  // The next token of the first place of `set`.
  const std::int32_t* next(std::uint64_t set) const {
    return tokens_[first_of(set)] + entries_[first_of(set)]->position;
  }
  // Prefetches the tokens of `set` that are not in the entries.
  void prefetch(std::uint64_t set) const {
    for (; set != 0; set &= set - 1) __builtin_prefetch(next(set) + OrderEntry::kNumNext);
  }

  // Reads the tokens of `set` at `offset` from the next one, which the functions below compare.
  void read(std::uint64_t set, std::ptrdiff_t offset) {
    if (offset < OrderEntry::kNumNext) {
      for (; set != 0; set &= set - 1) {
        read_[first_of(set)] = entries_[first_of(set)]->next[offset];
      }
    } else {
      for (; set != 0; set &= set - 1) read_[first_of(set)] = next(set)[offset];
    }
  }
  // The token of the first place of `set`, which was read.
  std::int32_t token_of(std::uint64_t set) const { return read_[first_of(set)]; }

  // Places that have one token.
  struct Equal {
    std::uint64_t set = 0;
    std::int32_t size = 0;
    std::int32_t token = 0;
  };
  // Returns those of `set`, which has `size` places and was read, that have its most frequent token
  // (the smallest one of equally frequent tokens); none where all texts have ended.
  Equal most_frequent(std::uint64_t set, std::int32_t size) const {
    Equal best;
    std::uint64_t left = set;
    std::int32_t num_left = size;
    take_first(left, num_left, best);
    if (num_left == 0 || num_left < best.size) return best;
    // The others by a hash of their tokens, so that most sets of places have one token.
    std::array<std::uint64_t, kBuckets> buckets{};
    std::array<std::int32_t, kBuckets> sizes{};
    std::uint32_t used = 0;
    for (; left != 0; left &= left - 1) {
      const std::uint32_t hash = static_cast<std::uint32_t>(token_of(left)) * 0x9E3779B9U >> 27;
      buckets[hash] |= left & (~left + 1);
      ++sizes[hash];
      used |= std::uint32_t{1} << hash;
    }
    for (; used != 0; used &= used - 1) {
      const std::size_t hash = first_of(used);
      while (buckets[hash] != 0 && sizes[hash] >= best.size) {
        take_first(buckets[hash], sizes[hash], best);
      }
    }
    return best;
  }

 private:
  static constexpr std::size_t kBuckets = 32;  // a hash has 5 bits

  static std::size_t first_of(std::uint64_t set) {
    return static_cast<std::size_t>(std::countr_zero(set));
  }
  // Takes the places that have the token of the first one from `set`, of `size` places, and
  // replaces `best` by them if there are more of them.
  void take_first(std::uint64_t& set, std::int32_t& size, Equal& best) const {
    Equal equal{.token = token_of(set)};
    for (std::uint64_t left = set; left != 0; left &= left - 1) {
      const std::size_t i = first_of(left);
      const bool is_equal = read_[i] == equal.token;
      equal.set |= std::uint64_t{is_equal} << i;
      equal.size += is_equal ? 1 : 0;
    }
    set &= ~equal.set;
    size -= equal.size;
    const bool is_more =
        equal.size > best.size || (equal.size == best.size && equal.token < best.token);
    if (equal.token != kBegin && is_more) best = equal;
  }

  // The first num_added_ elements of each are set.
  std::array<const std::int32_t*, kMost> tokens_;
  std::array<const OrderEntry*, kMost> entries_;
  std::array<std::int32_t, kMost> read_;
  std::size_t num_added_ = 0;
};

// The places at positions that a run's order has at indices of `range`: all, or 48 of them, evenly
// spaced.
inline Places places_in(const std::int32_t* tokens, const OrderEntry* order, IndexRange range) {
  constexpr std::size_t kMostLookedAt = 48;
  static_assert(kMostLookedAt <= Places::kMost);
  Places places;
  const std::size_t count = std::min(range.size(), kMostLookedAt);
  for (std::size_t i = 0; i < count; ++i) {
    places.add(tokens, order + range.begin + i * range.size() / count);
  }
  return places;
}

// Appends at most `most` guesses to `guesses`: the most frequent next token of the places (the
// smallest one of equally frequent tokens), then the most frequent token after it, and so on until
// all texts have ended. `length` tokens before the places are known.
inline void continue_texts(Places& places, std::int64_t length, std::int64_t most,
                           std::vector<Guess>& guesses) {
  constexpr std::ptrdiff_t kPrefetch = OrderEntry::kNumNext - 2;  // the offset to prefetch at
  std::uint64_t set = places.all();
  if (set == 0) return;
  auto size = static_cast<std::int32_t>(places.num_added());
  auto match_length = static_cast<std::int32_t>(length);
  std::ptrdiff_t offset = 0;
  for (; offset < most && size > 1; ++offset, ++match_length) {
    places.read(set, offset);
    const Places::Equal best = places.most_frequent(set, size);
    if (best.size == 0) return;
    if (offset == kPrefetch) places.prefetch(best.set);
    guesses.push_back({best.token, match_length, best.size, size});
    set = best.set;
    size = best.size;
  }
  const std::int32_t* const next = places.next(set);
  for (; offset < most && next[offset] != kBegin; ++offset, ++match_length) {
    guesses.push_back({next[offset], match_length, 1, 1});
  }
}

}  // namespace caption::drafts
