#include "eval/diversity.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace caption::eval {
namespace {

template <class T>
std::size_t count_distinct(std::vector<T> list) {
  std::sort(list.begin(), list.end());
  return static_cast<std::size_t>(std::unique(list.begin(), list.end()) - list.begin());
}

}  // namespace

Diversity diversity(std::span<const WordIds> captions) {
  Diversity result;
  if (captions.empty()) return result;
  WordIds words;
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  std::map<WordIds, std::int64_t> counts;
  for (const WordIds& caption : captions) {
    ++counts[caption];
    words.insert(words.end(), caption.begin(), caption.end());
    for (std::size_t i = 1; i < caption.size(); ++i) pairs.emplace_back(caption[i - 1], caption[i]);
  }
  const auto share = [](std::size_t part, std::size_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  result.distinct_1 = share(count_distinct(words), words.size());
  result.distinct_2 = share(count_distinct(pairs), pairs.size());
  std::size_t num_repeated = 0;
  for (const auto& [caption, count] : counts) {
    if (count > 1) num_repeated += static_cast<std::size_t>(count);
    result.most_frequent_count = std::max(result.most_frequent_count, count);
  }
  result.identical_share = share(num_repeated, captions.size());
  result.num_distinct_captions = static_cast<std::int64_t>(counts.size());
  result.mean_length_words =
      static_cast<double>(words.size()) / static_cast<double>(captions.size());
  return result;
}

}  // namespace caption::eval
