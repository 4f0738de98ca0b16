#include "model/internal/placing_threads.h"

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>

namespace caption::model {
namespace {

// The exception of the first tensor, in order, that could not be placed.
class FirstFailure {
 public:
  // Called within a handler of the exception.
  void add(std::size_t tensor) {
    const std::lock_guard lock(mutex_);
    if (exception_ != nullptr && tensor_ < tensor) return;
    tensor_ = tensor;
    exception_ = std::current_exception();
  }
  void rethrow() const {
    if (exception_ != nullptr) std::rethrow_exception(exception_);
  }

 private:
  std::mutex mutex_;
  std::size_t tensor_ = 0;
  std::exception_ptr exception_;
};

}  // namespace

// A thread's stream, whose pool has no other thread.
class PlacingThreads::Worker {
 public:
  explicit Worker(const Stream& stream) : arena_(pool_), stream_(pool_, stream.cpu_tier()) {
    stream_.set_arena(&arena_);
  }
  Stream& stream() { return stream_; }

 private:
  ThreadPool pool_{1};
  BufferArena arena_;
  Stream stream_;
};

PlacingThreads::PlacingThreads(Stream& stream) : stream_(stream), arena_(stream.pool()) {
  const int num_threads = stream.device() == Device::kCpu ? stream.pool().num_threads() : 1;
  for (int i = 0; num_threads > 1 && i < num_threads; ++i) {
    workers_.push_back(std::make_unique<Worker>(stream));
  }
  if (stream.device().is_cuda()) stream_.set_uploader(&uploader_.emplace(stream));
  stream_.set_arena(&arena_);
}

PlacingThreads::~PlacingThreads() {
  stream_.set_arena(nullptr);
  stream_.set_uploader(nullptr);
}

void PlacingThreads::finish() {
  if (uploader_.has_value()) uploader_->finish();
}

void PlacingThreads::place_side_by_side(std::size_t begin, std::size_t end, const Place& place) {
  if (workers_.empty()) {
    for (std::size_t i = begin; i < end; ++i) place(stream_, i);
    return;
  }
  std::atomic<std::size_t> next{begin};
  FirstFailure failure;
  const auto place_until_none_is_left = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t worker = first; worker < last; ++worker) {
      Stream& stream = workers_[static_cast<std::size_t>(worker)]->stream();
      for (std::size_t i = next++; i < end; i = next++) {
        try {
          place(stream, i);
        } catch (...) {
          failure.add(i);
          next = end;
        }
      }
    }
  };
  stream_.pool().parallel_for(static_cast<std::int64_t>(workers_.size()), 1,
                              place_until_none_is_left);
  failure.rethrow();
}

}  // namespace caption::model
