#include "eval/chrf.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/utf8.h"
#include "eval/internal/unicode.h"

namespace caption::eval {
namespace {

std::u32string without_spaces(std::string_view text) {
  std::u32string chars = decode_utf8_lossy(text);
  chars.erase(std::remove_if(chars.begin(), chars.end(), is_space), chars.end());
  return chars;
}

// A position in one of the texts with the (at most six) characters from there on. Once these are
// sorted, equal n-grams of every order are adjacent, so one sort serves all six orders.
struct Place {
  std::u32string_view gram;
  bool is_hypothesis;
};

std::vector<Place> sorted_places(std::u32string_view hypothesis, std::u32string_view reference) {
  std::vector<Place> places;
  places.reserve(hypothesis.size() + reference.size());
  for (std::size_t i = 0; i < hypothesis.size(); ++i) {
    places.push_back({hypothesis.substr(i, kChrfOrder), true});
  }
  for (std::size_t i = 0; i < reference.size(); ++i) {
    places.push_back({reference.substr(i, kChrfOrder), false});
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.gram < b.gram; });
  return places;
}

ChrfStatistics compare(std::u32string_view hypothesis, std::u32string_view reference) {
  ChrfStatistics statistics;
  const std::vector<Place> places = sorted_places(hypothesis, reference);
  for (std::size_t n = 1; n <= kChrfOrder; ++n) {
    ChrfStatistics::Order& order = statistics.orders[n - 1];
    for (std::size_t i = 0; i < places.size();) {
      if (places[i].gram.size() < n) {  // fewer than n characters remain in its text
        ++i;
        continue;
      }
      const std::u32string_view gram = places[i].gram.substr(0, n);
      std::int64_t in_hypothesis = 0;
      std::int64_t in_reference = 0;
      for (; i < places.size() && places[i].gram.substr(0, n) == gram; ++i) {
        ++(places[i].is_hypothesis ? in_hypothesis : in_reference);
      }
      order.num_hypothesis += in_hypothesis;
      order.num_reference += in_reference;
      order.num_matches += std::min(in_hypothesis, in_reference);
    }
    if (order.num_reference == 0) order.num_hypothesis = 0;
  }
  return statistics;
}

}  // namespace

ChrfStatistics chrf_statistics(std::string_view hypothesis,
                               std::span<const std::string> references) {
  const std::u32string hypothesis_chars = without_spaces(hypothesis);
  ChrfStatistics best;
  double best_score = -1.0;
  for (const std::string& reference : references) {
    const ChrfStatistics statistics = compare(hypothesis_chars, without_spaces(reference));
    const double score = chrf2(statistics);
    if (score > best_score) {
      best_score = score;
      best = statistics;
    }
  }
  return best;
}

double chrf2(const ChrfStatistics& statistics) {
  constexpr double kBetaSquared = 4.0;
  double precision = 0.0;
  double recall = 0.0;
  std::int64_t num_orders = 0;
  for (const ChrfStatistics::Order& order : statistics.orders) {
    if (order.num_hypothesis == 0 || order.num_reference == 0) continue;
    precision += static_cast<double>(order.num_matches) / static_cast<double>(order.num_hypothesis);
    recall += static_cast<double>(order.num_matches) / static_cast<double>(order.num_reference);
    ++num_orders;
  }
  if (precision + recall == 0.0) return 0.0;
  precision /= static_cast<double>(num_orders);
  recall /= static_cast<double>(num_orders);
  return 100.0 * (1.0 + kBetaSquared) * precision * recall / (kBetaSquared * precision + recall);
}

}  // namespace caption::eval
