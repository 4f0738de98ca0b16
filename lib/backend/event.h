// backend/event.h: a point in a stream's work (Stream::record()), for timing and waiting.
#pragma once

#include <chrono>
#include <memory>

#include "backend/device.h"

namespace caption {

// On the CPU and the mirror, whose work is done when its call returns, an event is a time. Copies
// are the same point.
class Event {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Event(Clock::time_point time) : time_(time) {}
  // The point after all work that a queue of the GPU `device` (Stream::queue()) was given so far.
  Event(Device device, void* queue);

  // Waits until the stream's work up to this point is done. Throws Error(kUnavailable) when the
  // device fails.
  void synchronize() const;
  // Work that a queue of the same GPU is given from now on begins after the point. The host goes
  // on; the queue's work may outlive this object. Does nothing for a time of the CPU.
  void order_before(void* queue) const;
  // The time between the two points, of one stream; waits for both.
  std::chrono::nanoseconds since(const Event& earlier) const;

 private:
  Clock::time_point time_;
  Device device_ = Device::kCpu;
  std::shared_ptr<void> on_gpu_;  // null on the CPU
};

}  // namespace caption
