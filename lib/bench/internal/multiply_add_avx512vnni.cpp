#include "bench/internal/multiply_add_integers.h"

namespace caption::bench {
namespace {

using Integers = std::int32_t __attribute__((vector_size(kAvx512Width * sizeof(std::int32_t))));

}  // namespace

float multiply_add_avx512vnni(std::int64_t rounds, float start) {
  return run_integer_chains<Integers>(rounds, start, [](Integers& sums, const Integers& factors) {
    asm volatile("vpdpbusd %[x], %[x], %[s]" : [s] "+v"(sums) : [x] "v"(factors));
  });
}

}  // namespace caption::bench
