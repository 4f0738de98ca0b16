// video/internal/stop_condition.h: when the work on one clip must stop early.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/error.h"

namespace caption::video {

// A deadline and a cancel flag, checked between packets and in every read of the file. Thread-safe.
class StopCondition {
 public:
  StopCondition(std::int64_t max_us, const std::atomic<bool>* cancelled)
      : start_us_(now_us()), max_us_(max_us), cancelled_(cancelled) {}

  bool is_met() const { return is_cancelled() || is_late(); }

  // Throws Error(kCancelled) or Error(kTimeout) when the condition is met.
  void check(const std::string& path) const {
    if (is_cancelled()) throw Error(ErrorCode::kCancelled, path + ": decoding was cancelled");
    if (is_late()) {
      throw Error(ErrorCode::kTimeout, path + ": not decoded after " +
                                           std::to_string(max_us_ / 1000) +
                                           " ms, the limit for one clip");
    }
  }

 private:
  bool is_cancelled() const {
    return cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed);
  }
  bool is_late() const { return now_us() - start_us_ > max_us_; }

  std::int64_t start_us_;
  std::int64_t max_us_;
  const std::atomic<bool>* cancelled_;
};

}  // namespace caption::video
