#include "kernels/swiglu.h"

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/select_tier.h"

namespace caption::kernels::impl {

void swiglu(Cpu, Stream& stream, ConstView gate, ConstView up, View y) {
  constexpr std::int64_t kOperationsPerElement = 16;  // an exponential
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  const std::int64_t width = y.dim(1);
  cpu::parallel_for(stream, y.dim(0), kOperationsPerElement * width,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t m = begin; m < end; ++m) {
                        tier.swish({.x = gate.as<float>() + m * gate.row_stride(),
                                    .beta = 1,
                                    .factor = up.as<float>() + m * up.row_stride(),
                                    .y = y.as<float>() + m * y.row_stride(),
                                    .n = width});
                      }
                    });
}

}  // namespace caption::kernels::impl
