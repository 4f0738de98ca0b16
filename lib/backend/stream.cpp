#include "backend/stream.h"

#include "backend/device_runtime.h"

namespace caption {

Stream::Stream(const Context& context, ThreadPool& pool)
    : context_(context), pool_(&pool), queue_(nullptr, DestroyQueue(context.device)) {
  context_.num_threads = pool.num_threads();
  if (!device().is_cuda()) return;
  DeviceRuntime& runtime = require_device_runtime(device());
  queue_.reset(runtime.create_queue());
  counters_ = Buffer(device(), kNumCounters * sizeof(std::uint32_t));
  runtime.fill_zeros(queue_.get(), counters_.begin(), counters_.size_bytes());
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
