#include "base/nearest.h"

#include <algorithm>
#include <optional>

#include "base/ascii.h"

namespace caption {
namespace {

// No known name is as long as this.
constexpr std::size_t kMaxTypedBytes = 64;

// Weighted edit distance (optimal string alignment, after Damerau 1964 and Levenshtein 1966) from
// `typed` to `wanted`: a missing letter costs 1, two swapped neighbours cost 1, a wrong or a
// superfluous letter costs 2.
std::size_t distance(std::string_view typed, std::string_view wanted) {
  constexpr std::size_t kForgotten = 1;
  constexpr std::size_t kSwapped = 1;
  constexpr std::size_t kWrong = 2;
  // Three rows of the table cost[i][j]: the cost from the first i bytes of `typed` to the first j
  // bytes of `wanted`.
  std::vector<std::size_t> before_last(wanted.size() + 1);
  std::vector<std::size_t> last(wanted.size() + 1);
  std::vector<std::size_t> row(wanted.size() + 1);
  for (std::size_t j = 0; j <= wanted.size(); ++j) row[j] = j * kForgotten;
  for (std::size_t i = 1; i <= typed.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i * kWrong;
    for (std::size_t j = 1; j <= wanted.size(); ++j) {
      const bool is_same = typed[i - 1] == wanted[j - 1];
      row[j] = std::min(
          {last[j - 1] + (is_same ? 0 : kWrong), last[j] + kWrong, row[j - 1] + kForgotten});
      const bool is_swapped =
          i > 1 && j > 1 && typed[i - 1] == wanted[j - 2] && typed[i - 2] == wanted[j - 1];
      if (is_swapped) row[j] = std::min(row[j], before_last[j - 2] + kSwapped);
    }
  }
  return row[wanted.size()];
}

// The parts of the name between '-', '_' and '.'.
std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const std::size_t length = std::min(name.find_first_of("-_."), name.size());
    if (length > 0) words.push_back(name.substr(0, length));
    name.remove_prefix(std::min(length + 1, name.size()));
  }
  return words;
}

bool has_all_words(std::string_view typed, std::string_view wanted) {
  const std::vector<std::string_view> known = words_of(wanted);
  const std::vector<std::string_view> words = words_of(typed);
  return !words.empty() && std::all_of(words.begin(), words.end(), [&](std::string_view word) {
    return word.size() > 2 && std::find(known.begin(), known.end(), word) != known.end();
  });
}

std::string_view without_dashes(std::string_view name) {
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

// The cost of suggesting `wanted` for `typed`; std::nullopt when they have too little in common.
std::optional<std::size_t> price(std::string_view typed, std::string_view wanted) {
  constexpr std::size_t kMinPrefixBytes = 3;
  const std::size_t cost = distance(typed, wanted);
  const bool is_prefix = typed.size() >= kMinPrefixBytes && wanted.starts_with(typed);
  const std::size_t affordable = std::max<std::size_t>(2, typed.size() / 2);
  // The cost alone would accept any candidate of about the same length for a name of one or two
  // letters.
  const bool shares_a_letter = typed.find_first_of(wanted) != std::string_view::npos;
  if (is_prefix || has_all_words(typed, wanted)) return cost;
  return cost <= affordable && shares_a_letter ? std::optional<std::size_t>(cost) : std::nullopt;
}

}  // namespace

std::string nearest_name(std::string_view typed, const std::vector<std::string>& candidates) {
  typed = without_dashes(typed);
  if (typed.empty() || typed.size() > kMaxTypedBytes) return {};
  const std::string lower = to_lower_ascii(typed);
  const std::string* nearest = nullptr;
  std::size_t least = 0;
  for (const std::string& candidate : candidates) {
    const std::optional<std::size_t> cost = price(lower, to_lower_ascii(without_dashes(candidate)));
    if (!cost.has_value() || (nearest != nullptr && *cost >= least)) continue;
    nearest = &candidate;
    least = *cost;
  }
  return nearest == nullptr ? std::string() : *nearest;
}

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(typed, candidates);
  return nearest.empty() ? std::string() : "; did you mean " + nearest + "?";
}

}  // namespace caption
