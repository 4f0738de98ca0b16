#include "backend/stream.h"

#include "backend/device_runtime.h"

namespace caption {

Stream::Stream(const Context& context, ThreadPool& pool)
    : context_(context), pool_(&pool), queue_(nullptr, DestroyQueue(context.device)) {
  context_.num_threads = pool.num_threads();
  if (device().is_cuda()) queue_.reset(require_device_runtime(device()).create_queue());
}

void* Stream::queue() const {
  if (queue_ != nullptr) require_device_runtime(device());
  return queue_.get();
}

void Stream::synchronize() {
  if (queue_ != nullptr) require_device_runtime(device()).synchronize(queue_.get());
}

Event Stream::record() const {
  return queue_ == nullptr ? Event(Event::Clock::now()) : Event(device(), queue_.get());
}

void Stream::wait(const Event& event) {
  if (queue_ != nullptr) event.order_before(queue_.get());
}

void Stream::DestroyQueue::operator()(void* queue) const noexcept {
  releasing_runtime(device).destroy_queue(queue);
}

}  // namespace caption
