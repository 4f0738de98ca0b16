// kernels/cpu/parallel.h: distribution of a kernel's independent items over the stream's threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "backend/stream.h"

namespace caption::kernels::cpu {

// Below this many operations, handing a range to another thread costs more than computing it.
inline constexpr std::int64_t kMinOperationsPerRange = 1 << 16;

// Calls body(begin, end) for ranges that cover [0, count); `operations` is the approximate work of
// one item.
template <class Body>
void parallel_for(Stream& stream, std::int64_t count, std::int64_t operations, const Body& body) {
  const std::int64_t grain =
      std::max<std::int64_t>(1, kMinOperationsPerRange / std::max<std::int64_t>(1, operations));
  // Passed by reference: a std::function that copied the captures would allocate.
  stream.pool().parallel_for(count, grain, std::cref(body));
}

}  // namespace caption::kernels::cpu
