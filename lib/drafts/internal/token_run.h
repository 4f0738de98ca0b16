// drafts/internal/token_run.h: a run of a TokenArchive.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "drafts/internal/context_index.h"
#include "drafts/internal/continuations.h"
#include "drafts/internal/run_array.h"

namespace caption::drafts {

// Texts, each after a kBegin, a last kBegin, and the positions of their tokens in the order of the
// tokens before them. Positions with equal contexts of kMaxContext tokens are in ascending order.
struct TokenRun {
  RunArray<std::int32_t> tokens;
  RunArray<OrderEntry> order;
  // [i] is the number of tokens, kBegin included, that order[i] shares with order[i - 1], read
  // backwards; kMaxContext where their contexts are equal. [0] is 0.
  RunArray<std::uint8_t> shared;
  ContextIndex index;
  Continuations continuations;

  // Tokens of the texts and the kBegin before each.
  std::size_t length() const { return tokens.size() - 1; }
  std::int64_t size_bytes() const {
    return static_cast<std::int64_t>(tokens.capacity() * sizeof(std::int32_t) +
                                     order.capacity() * sizeof(OrderEntry) + shared.capacity()) +
           index.size_bytes() + continuations.size_bytes();
  }
};

TokenRun make_run(std::span<const std::int32_t> text);

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
  std::array<std::int32_t, kMaxContext> tokens_;  // the first size_ are set
  std::int64_t size_ = 0;
};

}  // namespace caption::drafts
