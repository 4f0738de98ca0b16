// backend/thread_pool.h: the compute threads of the CPU backend.
//
// One pool per engine or stage, passed explicitly; no global pool. The caller takes part in the
// work, so a pool of `num_threads` starts num_threads - 1 threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace caption {

class ThreadPool {
 public:
  // num_threads >= 1. Throws Error(kOutOfMemory) when the system does not start them all, after the
  // threads that were started have ended.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Calls body(begin, end) for disjoint ranges that cover [0, count), each at least `grain` long
  // except the last; returns when all are done. A thread works through one part of [0, count) in
  // ascending order, then takes what is left of the parts of other threads. The ranges differ from
  // call to call, and results must not depend on them: a body computes each index independently.
  // Rethrows the first exception of a body. Not reentrant; one caller at a time.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t begin, std::int64_t end)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption
