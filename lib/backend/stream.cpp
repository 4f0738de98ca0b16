#include "backend/stream.h"

#include "backend/device_runtime.h"

namespace caption {

Stream::Stream(const Context& context, ThreadPool& pool)
    : device_(context.device), pool_(&pool), cpu_tier_(context.cpu_tier) {
  if (device_ == Device::kCuda) queue_.reset(require_device_runtime().create_queue());
}

void Stream::synchronize() {
  if (queue_ != nullptr) require_device_runtime().synchronize(queue_.get());
}

Event Stream::record() const {
  return queue_ == nullptr ? Event(Event::Clock::now()) : Event(queue_.get());
}

void Stream::DestroyQueue::operator()(void* queue) const noexcept {
  require_device_runtime().destroy_queue(queue);
}

}  // namespace caption
