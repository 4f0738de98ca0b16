// kernels_bench: the speed of attention and matrix products in relation to the limits of this
// machine, measured at about the same time. `caption-cli bench --kernels` measures the operations
// of a model.
//
//   kernels_bench [THREADS]
//       attention (attention_bench.cpp), between two measurements of the rate of reading memory
//   kernels_bench THREADS vision [TIER]
//       only the attention of vision towers, on the fastest tier or the one named
//   kernels_bench THREADS linear FORMAT M K N
//       x[M, K] by a weight [N, K] held as bf16, w8a8, int8 or int4, as one line of JSON
//       like that of `caption-cli bench --kernels --json -`
//
// The speed of a shared host varies, so compare only lines of one run.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "backend/thread_pool.h"
#include "tests/kernels/bench_rates.h"

namespace caption::testing {
namespace {

int run(int argc, char** argv) {
  ThreadPool pool(argc > 1 ? std::max(1, std::atoi(argv[1])) : 2);
  if (argc == 7 && std::string_view(argv[2]) == "linear") {
    bench_linear(pool, argv[3],
                 {.m = std::max(1LL, std::atoll(argv[4])),
                  .k = std::max(1LL, std::atoll(argv[5])),
                  .n = std::max(1LL, std::atoll(argv[6]))});
    return 0;
  }
  if ((argc == 3 || argc == 4) && std::string_view(argv[2]) == "vision") {
    bench_vision_attention(pool, choose_cpu_tier(argc == 4 ? argv[3] : ""));
    return 0;
  }
  if (argc > 2) {
    std::fputs("kernels_bench: [THREADS], THREADS vision [TIER], or THREADS linear FORMAT M K N\n",
               stderr);
    return 2;
  }
  std::printf("memory read before: %.1f GB/s\n", read_rate(pool) / 1e9);
  bench_attention(pool);
  std::printf("memory read after: %.1f GB/s\n", read_rate(pool) / 1e9);
  return 0;
}

}  // namespace
}  // namespace caption::testing

int main(int argc, char** argv) {
  try {
    return caption::testing::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
