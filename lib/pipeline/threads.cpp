#include "pipeline/threads.h"

#include <algorithm>

namespace caption::pipeline {

ThreadPlan plan_threads(int num_threads) {
  // Decoding gets half: sparse sampling still costs tens of milliseconds a frame at 1080p, and more
  // than 16 clips in flight only take memory. The decoder of text keeps most of the rest, since
  // its steps are what every caption waits for.
  return {.decode = std::clamp(num_threads / 2, 1, 16),
          .vision = std::max(1, num_threads / 4),
          .engine = std::max(1, num_threads - num_threads / 4)};
}

}  // namespace caption::pipeline
