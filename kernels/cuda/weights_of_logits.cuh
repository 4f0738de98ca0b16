// kernels/cuda/weights_of_logits.cuh: the numbers by which a token is chosen: the order of logits,
// their weights as integers, the uniform draw; and the exchange of 64 bits between lanes.
#pragma once

#include <cstdint>

#include "kernels/cuda/primitives.cuh"

namespace caption::kernels::cuda {

inline constexpr float kRuledOut = -__builtin_huge_valf();
inline constexpr std::uint32_t kRefusedRank = 0xFFFFFFFF;  // the rank of NaN and +inf

// ---- exchange of 64 bits ----
CAPTION_DEVICE std::uint64_t shuffle_64(std::uint64_t x, int lane) {
  const std::uint64_t high = shuffle(static_cast<std::uint32_t>(x >> 32), lane);
  return high << 32 | shuffle(static_cast<std::uint32_t>(x), lane);
}

CAPTION_DEVICE std::uint64_t greatest_of_warp_64(std::uint64_t x) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const std::uint64_t other = shuffle_64(x, lane_index() ^ mask);
    x = other > x ? other : x;
  }
  return x;
}

// The sum of x over the lanes up to this one.
CAPTION_DEVICE std::uint64_t running_sum_of_warp_64(std::uint64_t x) {
  for (int distance = 1; distance < 32; distance *= 2) {
    const int from = lane_index() - distance;
    const std::uint64_t other = shuffle_64(x, from < 0 ? 0 : from);
    if (from >= 0) x += other;
  }
  return x;
}

// ---- numbers ----
// Integers in the order of the logits, equal for both zeros; the greatest for a refused one.
CAPTION_DEVICE std::uint32_t rank_of(float x) {
  if (!(x <= 0x1.fffffep127F)) return kRefusedRank;
  const std::uint32_t bits = x == 0 ? 0 : bits_of_float(x);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

CAPTION_DEVICE float value_of(std::uint32_t rank) {
  return float_of_bits((rank >> 31) != 0 ? rank & 0x7FFFFFFFU : ~rank);
}

// The integer nearest to 2^44 e^x, for x <= 0: with x = n ln 2 + r, and the Taylor polynomial of
// e^r to r^12, whose rest is below 2^-52 for |r| <= ln(2) / 2.
CAPTION_DEVICE std::uint64_t scaled_exponential(double x) {
  constexpr int kScale = 44;
  constexpr double kRounding = 0x1.8p52;
  constexpr double kLn2High = 0x1.62e42fefa3800p-1;  // its product with |n| < 2^10 is exact
  constexpr double kLn2Low = 0x1.ef35793c76730p-45;
  if (x < -32.0) return 0;  // 2^44 e^-32 < 1 / 4
  const double n = fused(x, 0x1.71547652b82fep0, kRounding) - kRounding;
  const double r = fused(n, -kLn2Low, fused(n, -kLn2High, x));
  double p = 1.0 / 479001600;  // 12!
  p = fused(p, r, 1.0 / 39916800);
  p = fused(p, r, 1.0 / 3628800);
  p = fused(p, r, 1.0 / 362880);
  p = fused(p, r, 1.0 / 40320);
  p = fused(p, r, 1.0 / 5040);
  p = fused(p, r, 1.0 / 720);
  p = fused(p, r, 1.0 / 120);
  p = fused(p, r, 1.0 / 24);
  p = fused(p, r, 1.0 / 6);
  p = fused(p, r, 0.5);
  p = fused(p, r, 1.0);
  p = fused(p, r, 1.0);
  const auto exponent = static_cast<std::uint64_t>(1023 + kScale + static_cast<int>(n));
  return static_cast<std::uint64_t>(p * double_of_bits(exponent << 52) + 0.5);
}

// Uniform in [0, 1) with 53 bits, as sampling/philox.h.
CAPTION_DEVICE double uniform_draw(std::uint64_t seed, std::uint64_t index) {
  std::uint32_t counter[4] = {static_cast<std::uint32_t>(index),
                              static_cast<std::uint32_t>(index >> 32), 0, 0};
  auto key_0 = static_cast<std::uint32_t>(seed);
  auto key_1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product_0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product_1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter[0] = static_cast<std::uint32_t>(product_1 >> 32) ^ counter[1] ^ key_0;
    counter[1] = static_cast<std::uint32_t>(product_1);
    counter[2] = static_cast<std::uint32_t>(product_0 >> 32) ^ counter[3] ^ key_1;
    counter[3] = static_cast<std::uint32_t>(product_0);
    key_0 += 0x9E3779B9;
    key_1 += 0xBB67AE85;
  }
  const std::uint64_t word = std::uint64_t{counter[0]} << 32 | counter[1];
  return static_cast<double>(word >> 11) * 0x1p-53;
}

}  // namespace caption::kernels::cuda
