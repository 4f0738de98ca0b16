#include "sampling/loop_detector.h"

#include <algorithm>

namespace caption::sampling {

void LoopDetector::observe(std::span<const std::int32_t> output) {
  period_ = 0;
  const auto last = static_cast<std::int64_t>(output.size()) - 1;
  for (std::int64_t period = 1; period <= kMaxPeriod; ++period) {
    std::int64_t& num_matches = num_matches_[static_cast<std::size_t>(period - 1)];
    const bool repeats = last >= period && output[static_cast<std::size_t>(last)] ==
                                               output[static_cast<std::size_t>(last - period)];
    num_matches = repeats ? num_matches + 1 : 0;
    const std::int64_t loop_tokens = std::max(kMinTokens, kMinRounds * period);
    if (period_ == 0 && num_matches >= loop_tokens - period) period_ = period;
  }
}

}  // namespace caption::sampling
