#include "kernels/rope.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/select_tier.h"

namespace caption::kernels::impl {

void rope_table(Cpu, Stream& stream, const RopeAngles& angles, View table) {
  const std::int64_t half = angles.inv_freq.dim(0);
  const std::int64_t num_tokens = table.dim(0);
  if (num_tokens == 0) return;
  const std::int32_t* const positions = angles.positions.as<std::int32_t>();
  const float* const frequency = angles.inv_freq.as<float>();
  const auto num_axes = static_cast<std::int32_t>(angles.positions.num_elements() / num_tokens);
  // The first position of the axis that a frequency follows.
  std::vector<const std::int32_t*> position(static_cast<std::size_t>(half), positions);
  if (!angles.axis.empty()) {
    for (std::int64_t i = 0; i < half; ++i) {
      const std::int32_t axis = angles.axis.as<std::int32_t>()[i];
      CAPTION_CHECK(axis >= 0 && axis < num_axes, "rope_table: axis " + std::to_string(axis) +
                                                      " is outside [0, " +
                                                      std::to_string(num_axes) + ")");
      position[static_cast<std::size_t>(i)] += axis * num_tokens;
    }
  }
  float* const cosines = table.as<float>();
  constexpr std::int64_t kOperationsPerAngle = 64;  // approximate cost of a cosine and a sine
  cpu::parallel_for(stream, num_tokens, half * kOperationsPerAngle,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t t = begin; t < end; ++t) {
                        float* const row = cosines + t * 2 * half;
                        for (std::int64_t i = 0; i < half; ++i) {
                          const std::int32_t at = position[static_cast<std::size_t>(i)][t];
                          const float angle = static_cast<float>(at) * frequency[i];
                          row[i] = std::cos(angle) * angles.scale;
                          row[half + i] = std::sin(angle) * angles.scale;
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
