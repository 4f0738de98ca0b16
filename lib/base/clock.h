// base/clock.h: monotonic time in microseconds, a stopwatch, and the processor's time of a thread.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace caption {

// Microseconds since an arbitrary fixed point; never goes backwards.
inline std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Microseconds for which the calling thread has run on a processor.
inline std::int64_t thread_cpu_us() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

class Stopwatch {
 public:
  Stopwatch() : start_us_(now_us()) {}
  std::int64_t elapsed_us() const { return now_us() - start_us_; }
  double elapsed_ms() const { return static_cast<double>(elapsed_us()) / 1000.0; }

 private:
  std::int64_t start_us_;
};

}  // namespace caption
