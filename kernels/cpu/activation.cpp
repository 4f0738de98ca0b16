#include "kernels/activation.h"

#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/select_tier.h"

namespace caption::kernels::impl {
namespace {

constexpr std::int64_t kOperationsPerElement = 16;  // an exponential

}  // namespace

void add_silu(Cpu, Stream& stream, ConstView x, ConstView residual, View y) {
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  const std::int64_t width = y.dim(1);
  cpu::parallel_for(
      stream, y.dim(0), kOperationsPerElement * width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin * width; i < end * width && !residual.empty(); ++i) {
          y.as<float>()[i] = x.as<float>()[i] + residual.as<float>()[i];
        }
        const float* const from = residual.empty() ? x.as<float>() : y.as<float>();
        for (std::int64_t m = begin; m < end; ++m) {
          tier.swish({.x = from + m * width,
                      .beta = 1,
                      .factor = nullptr,
                      .y = y.as<float>() + m * width,
                      .n = width});
        }
      });
}

void sigmoid_scale(Cpu, Stream& stream, ConstView x, ConstView gate, View y) {
  const std::int64_t rows = x.dim(1);
  const std::int64_t channels = x.dim(2);
  auto* const scales = reinterpret_cast<float*>(
      stream.scratch(static_cast<std::size_t>(gate.num_elements()) * sizeof(float)));
  for (std::int64_t i = 0; i < gate.num_elements(); ++i) {
    scales[i] = 1 / (1 + std::exp(-gate.as<float>()[i]));
  }
  cpu::parallel_for(stream, x.dim(0) * rows, channels, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* const scale = scales + r / rows * channels;
      const float* const from = x.as<float>() + r * channels;
      float* const to = y.as<float>() + r * channels;
      for (std::int64_t c = 0; c < channels; ++c) to[c] = from[c] * scale[c];
    }
  });
}

}  // namespace caption::kernels::impl
