// drafts/internal/token_run.h: a run of a TokenArchive.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

namespace caption::drafts {

inline constexpr std::int32_t kBegin = -1;  // stands before every text
inline constexpr std::int64_t kMaxContext = 24;

// Texts, each after a kBegin, and the positions of their tokens in the order of the tokens before
// them. Positions with equal contexts of kMaxContext tokens are in ascending order.
struct TokenRun {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint32_t> order;
};

TokenRun make_run(std::span<const std::int32_t> text);
TokenRun merge_runs(const TokenRun& older, TokenRun newer);
// The run without the texts that begin in its older half; without any where none begins later.
TokenRun newest_half(const TokenRun& run);

// The tokens before a position, from the nearest on, to the kBegin of its text.
class Preceding {
 public:
  Preceding(const TokenRun& run, std::uint32_t position) : next_(run.tokens.data() + position) {}
  std::int32_t at(std::int64_t distance) const { return next_[-1 - distance]; }

 private:
  const std::int32_t* next_;
};

// The last tokens of a text outside the archive.
class Context {
 public:
  explicit Context(std::span<const std::int32_t> text) : text_(text) {}
  std::int32_t at(std::int64_t distance) const {
    const std::int64_t index = std::ssize(text_) - 1 - distance;
    return index < 0 ? kBegin : text_[static_cast<std::size_t>(index)];
  }

 private:
  std::span<const std::int32_t> text_;
};

// The number of tokens, kBegin included, that are equal from the nearest on; at most `most`.
template <class A, class B>
std::int64_t common_length(const A& a, const B& b, std::int64_t most) {
  for (std::int64_t i = 0; i < most; ++i) {
    if (a.at(i) != b.at(i)) return i;
    if (a.at(i) == kBegin) return i + 1;
  }
  return most;
}

// Three-way comparison of the nearest `most` tokens: < 0, 0 or > 0.
template <class A, class B>
int compare_contexts(const A& a, const B& b, std::int64_t most) {
  for (std::int64_t i = 0; i < most; ++i) {
    if (a.at(i) != b.at(i)) return a.at(i) < b.at(i) ? -1 : 1;
    if (a.at(i) == kBegin) return 0;
  }
  return 0;
}

// The length of the longest context in the run that ends as `context` does; 0 if there is none.
std::int64_t longest_match(const TokenRun& run, const Context& context);
// The positions whose nearest `length` tokens are those of `context`.
std::span<const std::uint32_t> positions_after(const TokenRun& run, const Context& context,
                                               std::int64_t length);

}  // namespace caption::drafts
