#include "bench/internal/multiply_add.h"

namespace caption::bench {
namespace {

using Vector = float __attribute__((vector_size(kAvx512Width * sizeof(float))));

}  // namespace

float multiply_add_avx512(std::int64_t rounds, float start) {
  return run_multiply_add<Vector>(rounds, start);
}

}  // namespace caption::bench
