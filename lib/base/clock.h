// base/clock.h: monotonic time in microseconds, and a stopwatch.
#pragma once

#include <chrono>
#include <cstdint>

namespace caption {

// Microseconds since an arbitrary fixed point; never goes backwards.
inline std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
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
