// kernels/cpu/parallel.h: splitting a kernel's independent items over the stream's threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "backend/stream.h"

namespace caption::kernels::cpu {

// A range below this many operations costs less than handing it to another thread.
inline constexpr std::int64_t kMinOperationsPerRange = 1 << 16;

// body(begin, end) over ranges of [0, count); `operations` is the work of one item, roughly.
template <class Body>
void parallel_for(Stream& stream, std::int64_t count, std::int64_t operations, const Body& body) {
  const std::int64_t grain =
      std::max<std::int64_t>(1, kMinOperationsPerRange / std::max<std::int64_t>(1, operations));
  // By reference: a std::function that copied the captures would allocate.
  stream.pool().parallel_for(count, grain, std::cref(body));
}

}  // namespace caption::kernels::cpu
