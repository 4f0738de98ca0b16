// eval/internal/ngrams.h: n-grams of word ids, n = 1..4.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "eval/ngram_metrics.h"

namespace caption::eval {

// The word ids of an n-gram; elements from n on are -1.
using Ngram = std::array<std::int32_t, kMaxOrder>;

inline std::size_t order_of(const Ngram& ngram) {
  return static_cast<std::size_t>(std::find(ngram.begin(), ngram.end(), -1) - ngram.begin());
}

struct NgramHash {
  std::size_t operator()(const Ngram& ngram) const {
    std::uint64_t hash = 0x9E3779B97F4A7C15u;
    for (const std::int32_t word : ngram) {
      hash = (hash ^ static_cast<std::uint32_t>(word)) * 0xBF58476D1CE4E5B9u;
      hash ^= hash >> 29;
    }
    return static_cast<std::size_t>(hash);
  }
};

template <class Value>
using NgramMap = std::unordered_map<Ngram, Value, NgramHash>;

// Calls visit(ngram) for every n-gram of `words`, repetitions included.
template <class Visit>
void for_each_ngram(std::span<const std::int32_t> words, Visit visit) {
  for (std::size_t begin = 0; begin < words.size(); ++begin) {
    Ngram ngram;
    ngram.fill(-1);
    const std::size_t longest = std::min(kMaxOrder, words.size() - begin);
    for (std::size_t n = 0; n < longest; ++n) {
      ngram[n] = words[begin + n];
      visit(ngram);
    }
  }
}

struct NgramCount {
  Ngram ngram;
  std::int64_t count;
};

// Each n-gram once with its count, ascending.
inline std::vector<NgramCount> count_ngrams(std::span<const std::int32_t> words) {
  std::vector<Ngram> places;
  places.reserve(words.size() * kMaxOrder);
  for_each_ngram(words, [&](const Ngram& ngram) { places.push_back(ngram); });
  std::sort(places.begin(), places.end());
  std::vector<NgramCount> counts;
  counts.reserve(places.size());
  for (const Ngram& ngram : places) {
    if (counts.empty() || counts.back().ngram != ngram) counts.push_back({ngram, 0});
    ++counts.back().count;
  }
  return counts;
}

// Calls visit(entry of a, entry of b) for every n-gram in both lists, which must be ascending by
// `ngram`.
template <class A, class B, class Visit>
void for_each_common(const std::vector<A>& a, const std::vector<B>& b, Visit visit) {
  auto i = a.begin();
  for (const B& entry : b) {
    while (i != a.end() && i->ngram < entry.ngram) ++i;
    if (i == a.end()) return;
    if (i->ngram == entry.ngram) visit(*i, entry);
  }
}

}  // namespace caption::eval
