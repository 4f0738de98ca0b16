// base/on_work.h: a callback by which a long computation reports progress and can be stopped.
#pragma once

#include <cstdint>
#include <functional>

namespace caption {

// Called on the calling thread after each part of the work with the multiply-adds of that part; 0
// stands for a part that is not counted. What it throws ends the work. An empty function is not
// called.
using OnWork = std::function<void(std::int64_t multiply_adds)>;

inline void report_work(const OnWork& on_work, std::int64_t multiply_adds) {
  if (on_work) on_work(multiply_adds);
}

}  // namespace caption
