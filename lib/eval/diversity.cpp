#include "eval/diversity.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

namespace caption::eval {

Diversity diversity(std::span<const WordIds> captions) {
  Diversity result;
  if (captions.empty()) return result;
  std::set<std::int32_t> words;
  std::set<std::pair<std::int32_t, std::int32_t>> pairs;
  std::map<WordIds, std::int64_t> counts;
  std::int64_t num_words = 0;
  std::int64_t num_pairs = 0;
  for (const WordIds& caption : captions) {
    ++counts[caption];
    num_words += static_cast<std::int64_t>(caption.size());
    for (std::size_t i = 0; i < caption.size(); ++i) {
      words.insert(caption[i]);
      if (i == 0) continue;
      pairs.emplace(caption[i - 1], caption[i]);
      ++num_pairs;
    }
  }
  const auto share = [](std::size_t part, std::int64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  result.distinct_1 = share(words.size(), num_words);
  result.distinct_2 = share(pairs.size(), num_pairs);
  std::size_t num_repeated = 0;
  for (const auto& [caption, count] : counts) {
    if (count > 1) num_repeated += static_cast<std::size_t>(count);
    result.most_frequent_count = std::max(result.most_frequent_count, count);
  }
  const auto num_captions = static_cast<std::int64_t>(captions.size());
  result.identical_share = share(num_repeated, num_captions);
  result.num_distinct_captions = static_cast<std::int64_t>(counts.size());
  result.mean_length_words = static_cast<double>(num_words) / static_cast<double>(num_captions);
  return result;
}

}  // namespace caption::eval
