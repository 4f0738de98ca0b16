#include "pipeline/threads.h"

#include <algorithm>

namespace caption::pipeline {

ThreadPlan plan_threads(int num_threads, int num_replicas) {
  // Decoding may use every thread: sparse sampling costs tens of milliseconds per frame at 1080p,
  // and a decode thread that is ahead blocks on a full queue. More than 16 clips in flight for
  // each engine would only use more memory. The engine gets three quarters of the threads, since
  // every caption waits for its steps.
  return {.decode = std::clamp(num_threads, 1, 16 * num_replicas),
          .vision = std::max(1, num_threads / 4 / num_replicas),
          .engine = std::max(1, (num_threads - num_threads / 4) / num_replicas),
          .num_replicas = num_replicas};
}

std::string describe_threads(int num_threads, const ThreadPlan& plan) {
  const bool is_shared =
      plan.num_replicas * (plan.engine + plan.vision) + plan.decode > num_threads;
  const std::string times =
      plan.num_replicas > 1 ? std::to_string(plan.num_replicas) + " x " : std::string();
  return std::to_string(num_threads) + ": engine " + times + std::to_string(plan.engine) +
         ", vision " + times + std::to_string(plan.vision) + ", decode " +
         std::to_string(plan.decode) + (is_shared ? "; a stage that is ahead sleeps" : "");
}

}  // namespace caption::pipeline
