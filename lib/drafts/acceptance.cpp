#include "drafts/acceptance.h"

#include <algorithm>
#include <cmath>

namespace caption::drafts {
namespace {

// The first estimate counts as much as so many outcomes.
constexpr double kPriorOutcomes = 4;
// Outcomes of a bin that are remembered: its counts are halved when they exceed this.
constexpr double kMostOutcomes = 512;
// A match of n tokens is a coincidence with probability kCoincidence^n, in the first estimate.
constexpr double kCoincidence = 0.6;
// A token of the nearest text is another one than the text of an equal thing has, in the first
// estimate.
constexpr double kOtherText = 0.02;

double share(const Guess& guess) {
  return static_cast<double>(guess.count) / static_cast<double>(guess.total);
}

double first_estimate(GuessSource source, const Guess& guess) {
  // One text in which another token comes next is added to those that were looked at; to the
  // nearest ones, which resemble the caption more, half of one.
  const double num_others = source == GuessSource::kNearest ? 0.5 : 1.0;
  const double smoothed =
      static_cast<double>(guess.count) / (static_cast<double>(guess.total) + num_others);
  const double is_other = std::pow(kCoincidence, guess.match_length);
  if (source != GuessSource::kCopy) return smoothed * (1.0 - is_other);
  // A copied text is right as a whole where the things are alike, whatever the other texts say.
  return (1.0 - kOtherText) * ((1.0 - is_other) + is_other * smoothed);
}

// The number of bounds that are at most `value`.
template <std::size_t N, class T>
std::size_t class_of(const std::array<T, N>& bounds, T value) {
  return static_cast<std::size_t>(
      std::count_if(bounds.begin(), bounds.end(), [&](T bound) { return bound <= value; }));
}

}  // namespace

std::string_view guess_source_name(GuessSource source) {
  switch (source) {
    case GuessSource::kArchive: return "archive";
    case GuessSource::kRepetition: return "ngram";
    case GuessSource::kNearest: return "nearest";
    case GuessSource::kModel: return "model";
    case GuessSource::kCopy: return "copy";
    case GuessSource::kSelf: return "self";
  }
  return "";
}

std::size_t Acceptance::bin(GuessSource source, const Guess& guess) {
  static constexpr std::array<std::int32_t, kLengths - 1> kLengthBounds = {2, 3, 5, 8, 12, 20};
  static constexpr std::array<double, kShares - 1> kShareBounds = {0.3, 0.6, 0.85, 1.0};
  static constexpr std::array<std::int32_t, kTotals - 1> kTotalBounds = {2, 8};
  std::size_t index = static_cast<std::size_t>(source);
  index = index * kLengths + class_of(kLengthBounds, guess.match_length);
  index = index * kShares + class_of(kShareBounds, share(guess));
  return index * kTotals + class_of(kTotalBounds, guess.total);
}

double Acceptance::probability(GuessSource source, const Guess& guess) const {
  const Outcomes& outcomes = bins_[bin(source, guess)];
  const double count = outcomes.all + kPriorOutcomes;
  const double mean = (outcomes.right + kPriorOutcomes * first_estimate(source, guess)) / count;
  return mean + std::sqrt(mean * (1 - mean) / count) * (1 - mean);
}

void Acceptance::observe(GuessSource source, const Guess& guess, bool is_right) {
  Outcomes& outcomes = bins_[bin(source, guess)];
  outcomes.right += is_right ? 1 : 0;
  outcomes.all += 1;
  if (outcomes.all <= kMostOutcomes) return;
  outcomes.right /= 2;
  outcomes.all /= 2;
}

}  // namespace caption::drafts
