// backend/event.h: a point in a stream's work (Stream::record()), for timing and waiting.
#pragma once

#include <chrono>

namespace caption {

// On the CPU and the mirror, whose work is done when its call returns, an event is a time.
class Event {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Event(Clock::time_point time) : time_(time) {}

  // Waits until the stream's work up to this point is done.
  void synchronize() const {}
  // The time between the two points, of one stream; waits for both.
  std::chrono::nanoseconds since(const Event& earlier) const {
    synchronize();
    return time_ - earlier.time_;
  }

 private:
  Clock::time_point time_;
};

}  // namespace caption
