#include "drafts/step_costs.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace caption::drafts {
namespace {

constexpr double kWeightOfSize = 0.125;  // weight of a new step in the mean size of its class
constexpr double kMostOutlier = 2.0;     // a time counts as at most so many typical ones
constexpr double kMostTrust = 8;         // observations
constexpr double kFirstTimes = 4;        // the least of so many first times counts
constexpr double kSimilar = 1.5;         // sizes within this factor are similar
constexpr double kHalfTrust = 0.5;       // observations for which a mean counts one half

}  // namespace

StepCosts::StepCosts(Average average)
    : weight_of_faster_(average == Average::kMean ? kWeightOfMean : kWeightOfFaster),
      weight_of_slower_(average == Average::kMean ? kWeightOfMean : kWeightOfSlower) {}

// From 16 on two classes per octave: twice the binary logarithm, rounded to the nearest.
std::size_t StepCosts::class_of(std::int64_t num_tokens) {
  constexpr double kQuarter = 1.189207115002721;        // 2^0.25
  constexpr double kThreeQuarters = 1.681792830507429;  // 2^0.75
  constexpr std::int64_t kExact = 16;
  constexpr std::size_t kLastExact = kExact - 1;
  constexpr std::size_t kHalfOctaves = 8;  // the classes up to kExact, in half octaves
  if (num_tokens <= kExact) {
    return static_cast<std::size_t>(std::max<std::int64_t>(num_tokens, 1)) - 1;
  }
  const auto count = static_cast<std::uint64_t>(num_tokens);
  const std::uint64_t power = std::bit_floor(count);
  const double share = static_cast<double>(count) / static_cast<double>(power);  // in [1, 2)
  const auto octave = static_cast<std::size_t>(std::countr_zero(power));
  const std::size_t half = (share >= kQuarter ? 1u : 0u) + (share >= kThreeQuarters ? 1u : 0u);
  return std::min(2 * octave + half - kHalfOctaves + kLastExact, kNumClasses - 1);
}

double StepCosts::trust_in(const Class& c) const {
  return c.trust *
         std::exp2(-static_cast<double>(num_steps_ - c.last_seen) / static_cast<double>(kTrusted));
}

void StepCosts::observe(std::int64_t num_tokens, double us) {
  const std::size_t index = class_of(num_tokens);
  Class& c = classes_[index];
  const auto tokens = static_cast<double>(num_tokens);
  if (c.num_tokens > 0 && c.trust < kFirstTimes) {
    c.num_tokens += (tokens - c.num_tokens) / (c.trust + 1);
    c.us = std::min(c.us, us);
  } else if (c.num_tokens > 0) {
    c.num_tokens += kWeightOfSize * (tokens - c.num_tokens);
    const double weight = us < c.us ? weight_of_faster_ : weight_of_slower_;
    c.us += weight * (std::min(us, kMostOutlier * c.us) - c.us);
  } else {
    c.us = us;
    for (std::size_t below = 0; below < index; ++below) {
      const Class& smaller = classes_[below];
      if (smaller.num_tokens > 0) c.us = std::min(c.us, smaller.us * tokens / smaller.num_tokens);
    }
    c.num_tokens = tokens;
    note_seen(index);
  }
  ++num_steps_;
  c.trust = std::min(std::max(trust_in(c), std::min(c.trust, kFirstTimes)) + 1, kMostTrust);
  c.last_seen = num_steps_;
  estimate();
}

void StepCosts::note_seen(std::size_t index) {
  for (std::size_t i = index + 1; i-- > 0 && seen_from_[i] > index;) seen_from_[i] = index;
  for (std::size_t i = index + 1; i <= kNumClasses; ++i) {
    if (seen_below_[i] == kNumClasses || seen_below_[i] < index) seen_below_[i] = index;
  }
}

void StepCosts::estimate() {
  const Class* above = nullptr;
  for (auto c = classes_.rbegin(); c != classes_.rend(); ++c) {
    if (c->num_tokens == 0) continue;
    c->estimate = above == nullptr ? c->us : std::min(c->us, above->estimate);
    above = &*c;
  }
  const Class* below = nullptr;
  for (Class& c : classes_) {
    if (c.num_tokens == 0) continue;
    if (below != nullptr) {
      const double trust = trust_in(c);
      const double more = std::max(0.0, c.estimate - below->estimate);
      // Whole with kFirstTimes observations: less would make every larger step seem cheap for ever.
      const double share = trust / (trust + kHalfTrust) * (1 + kHalfTrust / kFirstTimes);
      c.estimate = below->estimate + more * std::min(1.0, share);
    }
    below = &c;
  }
}

bool StepCosts::has_measured(std::int64_t num_tokens, int least) const {
  const auto tokens = static_cast<double>(num_tokens);
  return std::any_of(classes_.begin(), classes_.end(), [&](const Class& c) {
    return c.num_tokens * kSimilar >= tokens && c.num_tokens <= kSimilar * tokens &&
           c.trust >= least;
  });
}

double StepCosts::us(std::int64_t num_tokens) const {
  const auto tokens = static_cast<double>(num_tokens);
  const std::size_t own = class_of(num_tokens);
  std::size_t above = seen_from_[own];
  // The class of `tokens` itself may have a smaller mean.
  if (above == own && classes_[own].num_tokens < tokens) above = seen_from_[own + 1];
  const std::size_t below = seen_below_[above];
  if (below == kNumClasses) {
    return above == kNumClasses ? 0 : classes_[above].estimate;  // smaller steps cost at most that
  }
  const Class& smaller = classes_[below];
  if (above != kNumClasses) {
    const Class& larger = classes_[above];
    const double share = (tokens - smaller.num_tokens) / (larger.num_tokens - smaller.num_tokens);
    return smaller.estimate + share * (larger.estimate - smaller.estimate);
  }
  const double tried = kMostGrowth * smaller.num_tokens + 2;
  const double us_per_token = smaller.estimate / smaller.num_tokens;
  return smaller.estimate +
         us_per_token * (kUnknownShare * (std::min(tokens, tried) - smaller.num_tokens) +
                         std::max(0.0, tokens - tried));
}

}  // namespace caption::drafts
