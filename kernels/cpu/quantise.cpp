#include "kernels/cpu/quantise.h"

#include <algorithm>
#include <bit>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

// Adding and subtracting this number rounds |x| < 2^22 to the nearest integer, ties to even.
constexpr float kRounding = 0x1.8p23F;

}  // namespace

BF16 quantise(const float* x, std::int64_t n, std::int8_t* y) {
  // Compares magnitudes as integers: their bits are ordered as their values, infinity and NaN last.
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<std::int32_t>(x[i]) & 0x7FFFFFFF);
  }
  const BF16 scale = largest < kInfinityBits
                         ? to_bf16_upwards(std::bit_cast<float>(largest) / 127.0F)
                         : BF16{0x7FC0};  // NaN
  const float divisor = to_float(scale);
  if (largest >= kInfinityBits || divisor == 0) {
    std::fill_n(y, n, std::int8_t{0});
    return scale;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<std::int8_t>(static_cast<int>((x[i] / divisor + kRounding) - kRounding));
  }
  return scale;
}

}  // namespace caption::kernels::cpu
