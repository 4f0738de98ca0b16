#include "bench/internal/kernel_timer.h"

#include <algorithm>

#include "base/clock.h"
#include "bench/statistics.h"

namespace caption::bench {

std::int64_t KernelTimer::num_copies(std::int64_t bytes_each) const {
  // Limits the time for making copies; the weights of a small model are in the caches anyway.
  constexpr std::int64_t kMostCopies = 256;
  return std::clamp<std::int64_t>((options_.working_set_bytes + bytes_each - 1) / bytes_each, 1,
                                  kMostCopies);
}

void KernelTimer::add(KernelRow row, const std::function<void(std::int64_t turn)>& call) {
  std::int64_t turn = 0;
  call(turn++);  // first call grows the scratch memory and commits pages
  std::vector<double> rounds;
  for (int round = 0; round < options_.num_rounds; ++round) {
    const Stopwatch stopwatch;
    const std::int64_t first = turn;
    do {
      call(turn++);
    } while (stopwatch.elapsed_us() < options_.round_us);
    rounds.push_back(static_cast<double>(std::max<std::int64_t>(stopwatch.elapsed_us(), 1)) / 1e6 /
                     static_cast<double>(turn - first));
  }
  row.seconds = median(std::move(rounds));
  rows_.push_back(std::move(row));
  if (options_.on_row) options_.on_row(rows_.back());
}

Tensor random_tensor(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  dispatch_float(dtype, [&](auto element) {
    using T = decltype(element);
    T* const values = tensor.as<T>();
    std::uint32_t state = 20;
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
      state = state * 1664525u + 1013904223u;  // generator of "Numerical Recipes"
      values[i] = from_float<T>(static_cast<float>(state >> 8u) * 0x1p-23F - 1.0F);
    }
  });
  return tensor;
}

}  // namespace caption::bench
