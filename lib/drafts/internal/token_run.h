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
  ContextIndex index;

  // Tokens of the texts and the kBegin before each.
  std::size_t length() const { return tokens.size() - 1; }
  std::int64_t size_bytes() const {
    return static_cast<std::int64_t>(tokens.capacity() * sizeof(std::int32_t) +
                                     order.capacity() * sizeof(std::uint32_t)) +
           index.size_bytes();
  }
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

// Where a context belongs in the order of a run, and the positions that share its last tokens. Is
// made in three stages, so that the memory of several runs is waited for at the same time. The run
// and the context must outlive it.
class ContextPlace {
 public:
  ContextPlace() {}  // leaves the members uninitialised, as most of an array of places are unused
  void begin(const TokenRun& run, const Context& context);
  // Reads the index.
  void look_up();
  // Narrows the search to kPrefetched indices, whose tokens it prefetches.
  void narrow();
  void finish();

  // The number of tokens, kBegin included, that the context of any position shares with this one;
  // in a run with an index 0 where that is below 2.
  std::int64_t longest() const { return longest_; }
  // The number of tokens that the context shares with that of the i-th position before the place,
  // and of the i-th after it; 0 where there is none.
  std::int64_t length_before(std::size_t i) const {
    return i < place_ ? common_length(place_ - 1 - i) : 0;
  }
  std::int64_t length_after(std::size_t i) const {
    return i < run_->order.size() - place_ ? common_length(place_ + i) : 0;
  }
  // Finds the positions whose nearest `length` tokens are those of the context, length >= 1.
  void find(std::int64_t length);
  std::span<const std::uint32_t> found() const { return found_; }

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
  ContextIndex::Range range_;  // has all positions that share depth_ tokens
  std::int64_t depth_;
  std::size_t place_;     // in order: positions with smaller contexts are before it
  std::size_t num_left_;  // the place is place_ or one of so many after it
  std::int64_t longest_;
  std::span<const std::uint32_t> found_;
};

}  // namespace caption::drafts
