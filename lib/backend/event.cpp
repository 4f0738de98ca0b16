#include "backend/event.h"

#include "backend/device_runtime.h"

namespace caption {

Event::Event(Device device, void* queue)
    : device_(device), on_gpu_(require_device_runtime(device).record(queue), [device](void* event) {
        releasing_runtime(device).destroy_event(event);
      }) {}

void Event::synchronize() const {
  if (on_gpu_ != nullptr) require_device_runtime(device_).synchronize_event(on_gpu_.get());
}

void Event::order_before(void* queue) const {
  if (on_gpu_ != nullptr) require_device_runtime(device_).wait(queue, on_gpu_.get());
}

std::chrono::nanoseconds Event::since(const Event& earlier) const {
  synchronize();
  if (on_gpu_ == nullptr) return time_ - earlier.time_;
  return require_device_runtime(device_).time_between(earlier.on_gpu_.get(), on_gpu_.get());
}

}  // namespace caption
