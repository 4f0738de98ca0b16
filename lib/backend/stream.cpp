#include "backend/stream.h"

#include "backend/device_runtime.h"

namespace caption {

Stream::Stream(const Context& context, ThreadPool& pool) : context_(context), pool_(&pool) {
  context_.num_threads = pool.num_threads();
  if (device() == Device::kCuda) queue_.reset(require_device_runtime().create_queue());
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
