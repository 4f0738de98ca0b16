// eval/chrf.h: chrF2, the F-score of character n-grams, as sacrebleu computes it.
//   per order n = 1..6: P_n = matches / n-grams of h, R_n = matches / n-grams of r
//   P, R = their means over the orders that both sides have;  chrF2 = 100 * 5 P R / (4 P + R)
// Source: Popovic 2015; sacrebleu 2.6, metrics/chrf.py (character order 6, word order 0, beta 2,
// case preserved, all whitespace removed). The text is not normalised: NFC and NFD differ.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace caption::eval {

inline constexpr std::size_t kChrfOrder = 6;

struct ChrfStatistics {
  struct Order {
    std::int64_t num_hypothesis = 0;  // 0 when the reference has none of this order
    std::int64_t num_reference = 0;
    std::int64_t num_matches = 0;  // clipped
  };
  std::array<Order, kChrfOrder> orders{};
};

// The statistics of the reference with the best sentence score, the first among equals. O(n log n)
// for n characters. Pure and thread-safe.
ChrfStatistics chrf_statistics(std::string_view hypothesis,
                               std::span<const std::string> references);

// The score in 0..100, of one segment or of sums over segments.
double chrf2(const ChrfStatistics& statistics);

}  // namespace caption::eval
