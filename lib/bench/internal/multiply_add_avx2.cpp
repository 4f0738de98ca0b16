#include "bench/internal/multiply_add.h"

namespace caption::bench {
namespace {

using Vector = float __attribute__((vector_size(kAvx2Width * sizeof(float))));
using Integers = std::int32_t __attribute__((vector_size(kAvx2Width * sizeof(std::int32_t))));

}  // namespace

float multiply_add_avx2(std::int64_t rounds, float start) {
  return run_multiply_add<Vector>(rounds, start);
}

// The products are written in assembly, because a compiler would move a product of constants out of
// the loop.
float multiply_add_avx2_int8(std::int64_t rounds, float start) {
  return run_integer_chains<Integers>(rounds, start, [](Integers& sums, const Integers& factors) {
    Integers products;
    asm volatile("vpmaddwd %[x], %[x], %[p]\n\tvpaddd %[p], %[s], %[s]"
                 : [s] "+x"(sums), [p] "=&x"(products)
                 : [x] "x"(factors));
  });
}

float multiply_add_avx2_int4(std::int64_t rounds, float start) {
  return run_integer_chains<Integers>(rounds, start, [](Integers& sums, const Integers& factors) {
    Integers products;
    asm volatile("vpmaddubsw %[x], %[x], %[p]\n\tvpaddw %[p], %[s], %[s]"
                 : [s] "+x"(sums), [p] "=&x"(products)
                 : [x] "x"(factors));
  });
}

}  // namespace caption::bench
