// kernels_bench: attention beside what this machine can do in the same minute; the other operations
// on any model's shape are measured by `caption-cli bench --kernels`.
//
//   kernels_bench [threads]
//
// Prints what attention_bench.cpp says, between two measurements of reading memory. Host speed
// drifts: compare lines of one run.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "backend/thread_pool.h"
#include "tests/kernels/bench_rates.h"

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2;
  caption::ThreadPool pool(threads);
  std::printf("memory read before: %.1f GB/s\n", caption::testing::read_rate(pool) / 1e9);
  caption::testing::bench_attention(pool);
  std::printf("memory read after: %.1f GB/s\n", caption::testing::read_rate(pool) / 1e9);
  return 0;
}
