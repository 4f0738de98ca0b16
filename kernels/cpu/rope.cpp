#include "kernels/rope.h"

#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/select_tier.h"

namespace caption::kernels::impl {

void rope_table(Cpu, Stream& stream, ConstView positions, ConstView inv_freq, View table) {
  const std::int64_t half = inv_freq.dim(0);
  const std::int32_t* const position = positions.as<std::int32_t>();
  const float* const frequency = inv_freq.as<float>();
  float* const angles = table.as<float>();
  constexpr std::int64_t kOperationsPerAngle = 64;  // approximate cost of a cosine and a sine
  cpu::parallel_for(stream, positions.dim(0), half * kOperationsPerAngle,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t t = begin; t < end; ++t) {
                        float* const row = angles + t * 2 * half;
                        for (std::int64_t i = 0; i < half; ++i) {
                          const float angle = static_cast<float>(position[t]) * frequency[i];
                          row[i] = std::cos(angle);
                          row[half + i] = std::sin(angle);
                        }
                      }
                    });
}

void rope(Cpu, Stream& stream, ConstView table, View x) {
  const std::int64_t heads = x.dim(1);
  const std::int64_t head_dim = x.dim(2);
  const std::int64_t half = head_dim / 2;
  const float* const angles = table.as<float>();
  float* const tokens = x.as<float>();
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  cpu::parallel_for(stream, x.dim(0), heads * head_dim, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const float* const cosines = angles + t * head_dim;
      const float* const sines = cosines + half;
      for (std::int64_t h = 0; h < heads; ++h) {
        float* const low = tokens + t * x.row_stride() + h * head_dim;
        tier.rotate(
            {.low = low, .high = low + half, .cosines = cosines, .sines = sines, .n = half});
      }
    }
  });
}

}  // namespace caption::kernels::impl
