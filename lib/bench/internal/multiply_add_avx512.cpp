#include "bench/internal/multiply_add_integers.h"

namespace caption::bench {
namespace {

using Vector = float __attribute__((vector_size(kAvx512Width * sizeof(float))));
using Integers = std::int32_t __attribute__((vector_size(kAvx512Width * sizeof(std::int32_t))));

}  // namespace

float multiply_add_avx512(std::int64_t rounds, float start) {
  return run_multiply_add<Vector>(rounds, start);
}

float multiply_add_avx512_int8(std::int64_t rounds, float start) {
  return run_integer_chains<Integers>(rounds, start, AddWordPairs());
}

float multiply_add_avx512_int4(std::int64_t rounds, float start) {
  return run_integer_chains<Integers>(rounds, start, AddBytePairs());
}

}  // namespace caption::bench
