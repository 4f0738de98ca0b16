// drafts/internal/places.h: places of texts, and the tokens that come after them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "drafts/internal/token_run.h"
#include "drafts/token_archive.h"

namespace caption::drafts {

// Up to 64 places of texts, each before its next token. A set of them is a mask: bit i is the i-th.
class Places {
 public:
  static constexpr std::size_t kMost = 64;

  // Adds a place and prefetches the tokens about it. At most kMost are added.
  void add(const std::int32_t* next) {
    __builtin_prefetch(next);
    next_[num_added_++] = next;
  }
  std::size_t num_added() const { return num_added_; }
  std::uint64_t all() const {
    return num_added_ == 0 ? 0 : ~std::uint64_t{0} >> (kMost - num_added_);
  }

  const std::int32_t* next(int i) const { return next_[static_cast<std::size_t>(i)]; }
  // Those of `set` whose token at `offset` from the next one is `token`; -1 is the one before.
  std::uint64_t with_token(std::uint64_t set, std::ptrdiff_t offset, std::int32_t token) const {
    std::uint64_t selected = 0;
    for (std::uint64_t left = set; left != 0; left &= left - 1) {
      const int i = std::countr_zero(left);
      selected |= std::uint64_t{next(i)[offset] == token} << i;
    }
    return selected;
  }

  // Returns the places of `set` that have its most frequent token at `offset` (the smallest one of
  // equally frequent tokens); 0 where all texts have ended.
  std::uint64_t with_most_frequent(std::uint64_t set, std::ptrdiff_t offset) const {
    Frequent best;
    std::uint64_t left = take_first(set, offset, best);
    if (left == 0 || std::popcount(left) < std::popcount(best.set)) return best.set;
    // The others by a hash of their tokens, so that most sets of places have one token.
    constexpr int kBits = 6;
    std::array<std::uint64_t, 1 << kBits> buckets{};
    std::uint64_t used = 0;
    for (; left != 0; left &= left - 1) {
      const int i = std::countr_zero(left);
      const std::uint32_t hash =
          static_cast<std::uint32_t>(next(i)[offset]) * 0x9E3779B9U >> (32 - kBits);
      buckets[hash] |= std::uint64_t{1} << i;
      used |= std::uint64_t{1} << hash;
    }
    for (; used != 0; used &= used - 1) {
      std::uint64_t bucket = buckets[static_cast<std::size_t>(std::countr_zero(used))];
      while (bucket != 0 && std::popcount(bucket) >= std::popcount(best.set)) {
        bucket = take_first(bucket, offset, best);
      }
    }
    return best.set;
  }

 private:
  struct Frequent {
    std::uint64_t set = 0;
    std::int32_t token = 0;
  };
  // Takes the places that have the token of the first one from `set`, replaces `best` by them if
  // there are more of them, and returns the others.
  std::uint64_t take_first(std::uint64_t set, std::ptrdiff_t offset, Frequent& best) const {
    const std::int32_t token = next(std::countr_zero(set))[offset];
    const std::uint64_t equal = with_token(set, offset, token);
    const int more = std::popcount(equal) - std::popcount(best.set);
    if (token != kBegin && (more > 0 || (more == 0 && token < best.token))) best = {equal, token};
    return set & ~equal;
  }

  std::array<const std::int32_t*, kMost> next_;  // num_added_ of them
  std::size_t num_added_ = 0;
};

// Appends at most `most` guesses to `guesses`: the most frequent next token of the places of `set`
// (the smallest one of equally frequent tokens), then the most frequent token after it, and so on
// until all texts have ended. `length` tokens before the places are known.
inline void continue_texts(const Places& places, std::uint64_t set, std::int64_t length,
                           std::int64_t most, std::vector<Guess>& guesses) {
  auto match_length = static_cast<std::int32_t>(length);
  std::ptrdiff_t offset = 0;
  for (; offset < most && !std::has_single_bit(set); ++offset, ++match_length) {
    const std::uint64_t best = places.with_most_frequent(set, offset);
    if (best == 0) return;
    guesses.push_back({places.next(std::countr_zero(best))[offset], match_length,
                       std::popcount(best), std::popcount(set)});
    set = best;
  }
  const std::int32_t* next = places.next(std::countr_zero(set)) + offset;
  for (; offset < most && *next != kBegin; ++offset, ++match_length) {
    guesses.push_back({*next++, match_length, 1, 1});
  }
}

}  // namespace caption::drafts
