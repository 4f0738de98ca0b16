// drafts/internal/token_run.h: a run of a TokenArchive.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "drafts/internal/context_index.h"

namespace caption::drafts {

inline constexpr std::int64_t kMaxContext = 24;

// Texts, each after a kBegin, a last kBegin, and the positions of their tokens in the order of the
// tokens before them. Positions with equal contexts of kMaxContext tokens are in ascending order.
struct TokenRun {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint32_t> order;
  // Empty where the order is short (ContextIndex::is_built()). Otherwise the third token before
  // each position of the order, kBegin where its text has none: a search among adjacent ones.
  std::vector<std::int32_t> thirds;
  ContextIndex index;

  // Tokens of the texts and the kBegin before each.
  std::size_t length() const { return tokens.size() - 1; }
  std::int64_t size_bytes() const {
    return static_cast<std::int64_t>(tokens.capacity() * sizeof(std::int32_t) +
                                     order.capacity() * sizeof(std::uint32_t) +
                                     thirds.capacity() * sizeof(std::int32_t)) +
           index.size_bytes();
  }
  ContextIndex::Range everywhere() const { return {0, static_cast<std::uint32_t>(order.size())}; }
  // Positions in `range` have the same `depth` tokens before them. Returns those that have `token`
  // before these tokens.
  ContextIndex::Range narrow(ContextIndex::Range range, std::int64_t depth,
                             std::int32_t token) const;
};

TokenRun make_run(std::span<const std::int32_t> text);
TokenRun merge_runs(const TokenRun& older, TokenRun newer);
// The run without the texts that begin in its older half; without any where none begins later.
TokenRun newest_half(const TokenRun& run);

// The last tokens of a text outside the archive, from the last on, to the kBegin before the text;
// at most kMaxContext.
class Context {
 public:
  explicit Context(std::span<const std::int32_t> text) {
    for (; size_ < std::min(kMaxContext, std::ssize(text)); ++size_) {
      tokens_[static_cast<std::size_t>(size_)] =
          text[text.size() - 1 - static_cast<std::size_t>(size_)];
    }
    if (size_ < kMaxContext) tokens_[static_cast<std::size_t>(size_++)] = kBegin;
  }
  std::int64_t size() const { return size_; }  // >= 1
  std::int32_t at(std::int64_t distance) const {
    return tokens_[static_cast<std::size_t>(distance)];
  }

 private:
  std::array<std::int32_t, kMaxContext> tokens_{};
  std::int64_t size_ = 0;
};

// Where a context belongs in the order of a run, and the positions that share its last tokens,
// three or more of them. Is made in three stages, so that the memory of several runs is waited for
// at the same time. The run and the context must outlive it.
class ContextPlace {
 public:
  ContextPlace() {}  // leaves the members uninitialised, as most of an array of places are unused
  // `range` has the positions that share the last three tokens of the context.
  void begin(const TokenRun& run, const Context& context, ContextIndex::Range range);
  // Narrows the search to kPrefetched indices, whose tokens it prefetches.
  void narrow();
  void finish();

  // The number of tokens, kBegin included, that the context of any position shares with this one;
  // 0 where that is below 3.
  std::int64_t longest() const { return longest_; }
  // The number of tokens that the context shares with the context of the i-th position before the
  // place, or (length_after) of the i-th position after it; 0 where there is no such position.
  std::int64_t length_before(std::size_t i) const {
    return i < place_ ? common_length(place_ - 1 - i) : 0;
  }
  std::int64_t length_after(std::size_t i) const {
    return i < run_->order.size() - place_ ? common_length(place_ + i) : 0;
  }
  // The positions whose nearest `length` tokens are those of the context, length >= 3.
  ContextIndex::Range find(std::int64_t length) const;

 private:
  static constexpr std::size_t kPrefetched = 16;

  std::int64_t common_length(std::size_t index) const {
    const std::int32_t* next = run_->tokens.data() + run_->order[index];
    std::int64_t length = 0;
    while (length < context_->size() && next[-1 - length] == context_->at(length)) ++length;
    return length;
  }
  // Whether the context of a position in range_ is smaller than this one.
  bool is_before(std::size_t index) const;
  // Halves the indices among which the place is, until there are at most `most`.
  void narrow_to(std::size_t most);

  const TokenRun* run_;
  const Context* context_;
  ContextIndex::Range range_;  // has all positions that share three tokens
  std::size_t place_;          // in order: positions with smaller contexts are before it
  std::size_t num_left_;       // the place is place_ or one of so many after it
  std::int64_t longest_;
};

}  // namespace caption::drafts
