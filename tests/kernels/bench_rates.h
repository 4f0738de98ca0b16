// tests/kernels/bench_rates.h: measuring functions that the parts of kernels_bench share.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "backend/cpu_tier.h"
#include "backend/thread_pool.h"
#include "tensor/tensor.h"

namespace caption::testing {

inline constexpr int kRounds = 7;

inline double seconds_once(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  call();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds of one call: the median of kRounds rounds of at least 20 ms.
inline double seconds_per_call(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  call();
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const Clock::time_point start = Clock::now();
    int calls = 0;
    double elapsed = 0;
    do {
      call();
      ++calls;
      elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    } while (elapsed < 0.02);
    rounds.push_back(elapsed / calls);
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

// Fills with small integers: exact in every dtype, and no subnormals that slow arithmetic down.
inline Tensor filled(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  dispatch_float(dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.as<T>()[i] = from_float<T>(static_cast<float>(i % 7 - 3));
    }
  });
  return tensor;
}

// Returns the bytes per second of reading 512 MiB, which is much larger than the caches.
inline double read_rate(ThreadPool& pool) {
  constexpr std::int64_t kWords = (512LL << 20) / 8;
  std::vector<std::uint64_t> memory(kWords, 1);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(pool.num_threads()) * 64, 0);
  const double seconds = seconds_per_call([&] {
    pool.parallel_for(pool.num_threads(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        const std::int64_t size = kWords / pool.num_threads();
        std::uint64_t sum = 0;
        for (std::int64_t i = part * size; i < (part + 1) * size; ++i) sum += memory[i];
        sums[static_cast<std::size_t>(part) * 64] = sum;
      }
    });
  });
  if (sums[0] == 0) std::puts("");  // uses the sums, so that the compiler keeps the reads
  return kWords * 8 / seconds;
}

// Defined in attention_bench.cpp.
void bench_attention(ThreadPool& pool);
void bench_vision_attention(ThreadPool& pool, CpuTier tier);

// y[m, n] = x[m, k] weight[n, k]^T
struct LinearSize {
  std::int64_t m, k, n;
};

// Defined in linear_bench.cpp; prints JSON. `format` is bf16, w8a8, int8 or int4; throws
// Error(kUsage) for others.
void bench_linear(ThreadPool& pool, const std::string& format, const LinearSize& size);

}  // namespace caption::testing
