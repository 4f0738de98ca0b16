#include "drafts/step_costs.h"

#include <algorithm>
#include <cmath>

namespace caption::drafts {
namespace {

constexpr double kWeightOfNew = 0.125;  // of a new time in the mean of its class
constexpr double kMostOutlier = 2.0;    // a time counts as at most so many means
constexpr double kMostTrust = 8;        // observations
constexpr double kHalfTrust = 0.5;      // observations for which a mean counts one half

}  // namespace

std::size_t StepCosts::class_of(std::int64_t num_tokens) {
  const double octaves = std::log2(static_cast<double>(std::max<std::int64_t>(num_tokens, 1)));
  return std::min(static_cast<std::size_t>(std::lround(2 * octaves)), kNumClasses - 1);
}

double StepCosts::trust_in(const Class& c) const {
  return c.trust *
         std::exp2(-static_cast<double>(num_steps_ - c.last_seen) / static_cast<double>(kTrusted));
}

void StepCosts::observe(std::int64_t num_tokens, double us) {
  const std::size_t index = class_of(num_tokens);
  Class& c = classes_[index];
  const auto tokens = static_cast<double>(num_tokens);
  if (c.num_tokens > 0) {
    c.num_tokens += kWeightOfNew * (tokens - c.num_tokens);
    c.us += kWeightOfNew * (std::min(us, kMostOutlier * c.us) - c.us);
  } else {
    c.us = us;
    for (std::size_t below = 0; below < index; ++below) {
      const Class& smaller = classes_[below];
      if (smaller.num_tokens > 0) c.us = std::min(c.us, smaller.us * tokens / smaller.num_tokens);
    }
    c.num_tokens = tokens;
  }
  ++num_steps_;
  c.trust = std::min(trust_in(c) + 1, kMostTrust);
  c.last_seen = num_steps_;
  estimate();
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
      c.estimate = below->estimate + more * trust / (trust + kHalfTrust);
    }
    below = &c;
  }
}

double StepCosts::us(std::int64_t num_tokens) const {
  const auto tokens = static_cast<double>(num_tokens);
  const Class* below = nullptr;
  for (const Class& c : classes_) {
    if (c.num_tokens == 0) continue;
    if (c.num_tokens >= tokens) {
      if (below == nullptr) return c.estimate;  // smaller steps cost at most as much
      const double share = (tokens - below->num_tokens) / (c.num_tokens - below->num_tokens);
      return below->estimate + share * (c.estimate - below->estimate);
    }
    below = &c;
  }
  if (below == nullptr) return 0;
  const double tried = kMostGrowth * below->num_tokens + 2;
  const double us_per_token = below->estimate / below->num_tokens;
  return below->estimate +
         us_per_token * (kUnknownShare * (std::min(tokens, tried) - below->num_tokens) +
                         std::max(0.0, tokens - tried));
}

}  // namespace caption::drafts
