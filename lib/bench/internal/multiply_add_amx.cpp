#include "bench/internal/multiply_add.h"

namespace caption::bench {
namespace {

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16};
};

}  // namespace

// sums[t] += a * b on tiles of 16 x 32 bf16, all zeros; four sums are used in rotation.
float multiply_add_amx(std::int64_t rounds, float start) {
  static_assert(kMultiplyAddChains == 12);
  const TileConfig config;
  asm volatile("ldtilecfg %0" : : "m"(config));
  for (std::int64_t round = 0; round < rounds; ++round) {
    asm volatile(
        "tdpbf16ps %tmm5, %tmm4, %tmm0\n\ttdpbf16ps %tmm5, %tmm4, %tmm1\n\t"
        "tdpbf16ps %tmm5, %tmm4, %tmm2\n\ttdpbf16ps %tmm5, %tmm4, %tmm3\n\t"
        "tdpbf16ps %tmm5, %tmm4, %tmm0\n\ttdpbf16ps %tmm5, %tmm4, %tmm1\n\t"
        "tdpbf16ps %tmm5, %tmm4, %tmm2\n\ttdpbf16ps %tmm5, %tmm4, %tmm3\n\t"
        "tdpbf16ps %tmm5, %tmm4, %tmm0\n\ttdpbf16ps %tmm5, %tmm4, %tmm1\n\t"
        "tdpbf16ps %tmm5, %tmm4, %tmm2\n\ttdpbf16ps %tmm5, %tmm4, %tmm3");
  }
  asm volatile("tilerelease");
  return start;
}

// The same on tiles of 16 x 64 signed 8-bit integers.
float multiply_add_amx_int8(std::int64_t rounds, float start) {
  static_assert(kMultiplyAddChains == 12);
  const TileConfig config;
  asm volatile("ldtilecfg %0" : : "m"(config));
  for (std::int64_t round = 0; round < rounds; ++round) {
    asm volatile(
        "tdpbssd %tmm5, %tmm4, %tmm0\n\ttdpbssd %tmm5, %tmm4, %tmm1\n\t"
        "tdpbssd %tmm5, %tmm4, %tmm2\n\ttdpbssd %tmm5, %tmm4, %tmm3\n\t"
        "tdpbssd %tmm5, %tmm4, %tmm0\n\ttdpbssd %tmm5, %tmm4, %tmm1\n\t"
        "tdpbssd %tmm5, %tmm4, %tmm2\n\ttdpbssd %tmm5, %tmm4, %tmm3\n\t"
        "tdpbssd %tmm5, %tmm4, %tmm0\n\ttdpbssd %tmm5, %tmm4, %tmm1\n\t"
        "tdpbssd %tmm5, %tmm4, %tmm2\n\ttdpbssd %tmm5, %tmm4, %tmm3");
  }
  asm volatile("tilerelease");
  return start;
}

}  // namespace caption::bench
