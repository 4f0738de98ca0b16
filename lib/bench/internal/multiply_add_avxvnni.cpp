#include "bench/internal/multiply_add_integers.h"

namespace caption::bench {
namespace {

using Integers = std::int32_t __attribute__((vector_size(kAvx2Width * sizeof(std::int32_t))));

}  // namespace

float multiply_add_avxvnni(std::int64_t rounds, float start) {
  return run_integer_chains<Integers>(rounds, start, [](Integers& sums, const Integers& factors) {
    asm volatile("%{vex%} vpdpbusd %[x], %[x], %[s]" : [s] "+x"(sums) : [x] "x"(factors));
  });
}

}  // namespace caption::bench
