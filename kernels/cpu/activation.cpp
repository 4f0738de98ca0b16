#include "kernels/activation.h"

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/select_tier.h"
#include "tensor/dtype.h"

namespace caption::kernels::impl {
namespace {

// Rough cost of an exponential or an error function, in the operations that cpu::parallel_for
// counts.
constexpr std::int64_t kOperationsPerElement = 16;

constexpr float kQuickGeluBeta = 1.702f;

}  // namespace

void quick_gelu(Cpu, Stream& stream, ConstView x, View y) {
  const std::int64_t dim = y.dim(1);
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  cpu::parallel_for(stream, y.dim(0), dim * kOperationsPerElement,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t r = begin; r < end; ++r) {
                        tier.swish({.x = x.as<float>() + r * x.row_stride(),
                                    .beta = kQuickGeluBeta,
                                    .factor = nullptr,
                                    .y = y.as<float>() + r * y.row_stride(),
                                    .n = dim});
                      }
                    });
}

void gelu_erf(Cpu, Stream& stream, ConstView x, View y) {
  const std::int64_t dim = y.dim(1);
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  cpu::parallel_for(
      stream, y.dim(0), dim * kOperationsPerElement, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          tier.gelu(x.as<float>() + r * x.row_stride(), y.as<float>() + r * y.row_stride(), dim);
        }
      });
}

void add(Cpu, Stream& stream, ConstView x, View y) {
  const std::int64_t dim = y.dim(1);
  dispatch_float(x.dtype(), [&](auto tag) {
    const auto* const addends = x.as<decltype(tag)>();
    cpu::parallel_for(stream, y.dim(0), dim, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const auto* const from = addends + r % x.dim(0) * x.row_stride();
        float* const to = y.as<float>() + r * y.row_stride();
        for (std::int64_t c = 0; c < dim; ++c) to[c] += to_float(from[c]);
      }
    });
  });
}

}  // namespace caption::kernels::impl
