#include "kernels/peak_rate.h"

#include "base/error.h"

namespace caption::kernels::impl {

double run_multiply_adds(Cpu, Stream&, PeakArithmetic, std::int64_t, View) {
  throw Error(ErrorCode::kUnavailable, "run_multiply_adds: the CPU has no such launches");
}

}  // namespace caption::kernels::impl
