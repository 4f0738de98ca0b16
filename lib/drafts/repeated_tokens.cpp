#include "drafts/repeated_tokens.h"

#include <algorithm>
#include <iterator>

#include "drafts/internal/token_scan.h"

namespace caption::drafts {
namespace {

constexpr std::int64_t kShortest = 2;
constexpr std::int64_t kLongest = 24;
constexpr std::size_t kSearched = 2048;  // tokens
constexpr std::int64_t kBlock = 64;

}  // namespace

void guess_repetition(std::span<const std::int32_t> tokens, std::int64_t most,
                      std::vector<Guess>& guesses) {
  guesses.clear();
  tokens = tokens.last(std::min(tokens.size(), kSearched));
  const std::int64_t size = std::ssize(tokens);
  if (size <= kShortest) return;
  const auto ends_equal = [&](std::int64_t place) {  // tokens before `place` that equal the last
    const std::int64_t longest = std::min(kLongest, place);
    std::int64_t length = 0;
    while (length < longest && tokens[static_cast<std::size_t>(place - 1 - length)] ==
                                   tokens[static_cast<std::size_t>(size - 1 - length)]) {
      ++length;
    }
    return length;
  };
  std::int64_t best_place = 0;
  std::int64_t best_length = kShortest - 1;
  for (std::int64_t end = size - 1; end >= kShortest && best_length < kLongest; end -= kBlock) {
    const std::int64_t begin = std::max(kShortest - 1, end - kBlock);
    const std::span<const std::int32_t> block =
        tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    if (!contains(block, tokens.back())) continue;
    for (std::int64_t place = end; place > begin && best_length < kLongest; --place) {
      const std::int64_t length = ends_equal(place);
      if (length <= best_length) continue;
      best_length = length;
      best_place = place;
    }
  }
  if (best_place == 0) return;
  const std::int64_t count = std::min(most, size - best_place);
  for (std::int64_t i = 0; i < count; ++i) {
    guesses.push_back({.token = tokens[static_cast<std::size_t>(best_place + i)],
                       .match_length = static_cast<std::int32_t>(best_length + i),
                       .count = 1,
                       .total = 1});
  }
}

}  // namespace caption::drafts
