#include "backend/event.h"

#include "backend/device_runtime.h"

namespace caption {

Event::Event(void* queue)
    : on_gpu_(require_device_runtime().record(queue),
              [](void* event) { require_device_runtime().destroy_event(event); }) {}

void Event::synchronize() const {
  if (on_gpu_ != nullptr) require_device_runtime().synchronize_event(on_gpu_.get());
}

std::chrono::nanoseconds Event::since(const Event& earlier) const {
  synchronize();
  if (on_gpu_ == nullptr) return time_ - earlier.time_;
  return require_device_runtime().time_between(earlier.on_gpu_.get(), on_gpu_.get());
}

}  // namespace caption
