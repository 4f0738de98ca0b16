// The inner loops of each tier, for guarantees of kernels/cpu/tier.h that tests of the operations
// do not cover.
#include "kernels/cpu/tier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/cpu/select_tier.h"
#include "tests/kernels/ordered_rows.h"
#include "tests/kernels/testing.h"

using caption::CpuTier;
using caption::kernels::cpu::Element;
using caption::kernels::cpu::select_tier;
using caption::kernels::cpu::Tier;
using namespace caption::testing;

TEST_SUITE_BEGIN("kernels/tier");

TEST_CASE("exp is within 2 ulp of the exact value over its whole range") {
  for (const CpuTier tier : TestedTiers()) {
    CAPTURE(static_cast<int>(tier));
    std::vector<float> x;
    for (float v = -120; v <= 0; v += 0.00073F) x.push_back(v);
    std::vector<float> y = x;
    select_tier(tier).exp_sum(y.data(), static_cast<std::int64_t>(y.size()), 0);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp(static_cast<double>(x[i]));
      // The ulp of a subnormal is the smallest subnormal.
      const double ulp = std::max(std::ldexp(1.0, std::ilogb(want) - 23), 0x1p-149);
      worst = std::max(worst, std::abs(static_cast<double>(y[i]) - want) / ulp);
    }
    CAPTURE(worst);
    CHECK(worst <= 2);
  }
}

TEST_CASE("exp_sum returns the sum of what it stored") {
  for (const CpuTier tier : TestedTiers()) {
    for (const std::int64_t n : {1, 7, 8, 15, 16, 17, 31, 128}) {
      CAPTURE(static_cast<int>(tier));
      CAPTURE(n);
      caption::Tensor x = random_f32({n + 1}, 1);
      const float behind = x.as<float>()[n];
      const float sum = select_tier(tier).exp_sum(x.as<float>(), n, 1.0F);
      double want = 0;
      for (std::int64_t i = 0; i < n; ++i) want += static_cast<double>(x.as<float>()[i]);
      CHECK(std::abs(static_cast<double>(sum) - want) <=
            (static_cast<double>(n) / 8 + 4) * kUnit * want);
      CHECK(x.as<float>()[n] == behind);
    }
  }
}

TEST_CASE("products with panels write the rows they are asked for and none behind them") {
  constexpr std::int64_t kColumns = caption::kernels::cpu::kPanelColumns;
  constexpr std::int64_t kPairs = 19;
  constexpr std::int64_t kRowsBehind = 32;
  for (const CpuTier tier : TestedTiers()) {
    for (const std::int64_t m : {1, 15, 17, 31, 32, 50}) {
      CAPTURE(static_cast<int>(tier));
      CAPTURE(m);
      const bool is_tiled = select_tier(tier).reads_tiled_rows;
      const auto a =
          ordered_rows(std::vector<std::uint16_t>(static_cast<std::size_t>(m * 2 * kPairs), 0x3F80),
                       m, 2 * kPairs, is_tiled);
      const std::vector<std::uint16_t> panel(2 * kPairs * kColumns, 0x3F80);
      std::vector<float> c(static_cast<std::size_t>((m + kRowsBehind) * kColumns), -7.0F);
      select_tier(tier).panel_gemm({.a = a.elements.data(),
                                    .a_stride = a.stride,
                                    .has_tiled_rows = is_tiled,
                                    .panels = panel.data(),
                                    .num_pairs = kPairs,
                                    .num_panels = 1,
                                    .c = c.data(),
                                    .c_stride = kColumns,
                                    .m = m});
      CHECK(std::count(c.begin(), c.begin() + m * kColumns, 2.0F * kPairs) == m * kColumns);
      CHECK(std::count(c.begin() + m * kColumns, c.end(), -7.0F) == kRowsBehind * kColumns);

      const auto codes =
          ordered_rows(std::vector<std::int8_t>(static_cast<std::size_t>(m * 4 * kPairs), -1), m,
                       4 * kPairs, is_tiled);
      const std::vector<std::uint8_t> weights(4 * kPairs * kColumns, 255);
      std::vector<std::int32_t> sums(c.size(), -7);
      select_tier(tier).panel8a8({.a = codes.elements.data(),
                                  .a_stride = codes.stride,
                                  .panel = weights.data(),
                                  .num_quads = kPairs,
                                  .c = sums.data(),
                                  .c_stride = kColumns,
                                  .m = m});
      CHECK(std::count(sums.begin(), sums.begin() + m * kColumns, -255 * 4 * kPairs) ==
            m * kColumns);
      CHECK(std::count(sums.begin() + m * kColumns, sums.end(), -7) == kRowsBehind * kColumns);
    }
  }
}

TEST_CASE("rounding to bf16 gives the same bits in every tier, or zeros of subnormals") {
  std::vector<std::uint32_t> bits = {0x00000000, 0x80000000, 0x3F800000, 0x3F808000, 0x3F818000,
                                     0x3F808001, 0x3F807FFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000,
                                     0x7F800001, 0xFFFFFFFF, 0x7FC00000, 0x7FBFFFFF, 0xFF7F8000,
                                     0x00800000, 0x00000001, 0x80008000, 0x00018000, 0x007FFFFF};
  std::mt19937 engine(11);
  while (bits.size() < 5003) bits.push_back(static_cast<std::uint32_t>(engine()));
  std::vector<float> x;
  for (const std::uint32_t number : bits) x.push_back(std::bit_cast<float>(number));
  for (const CpuTier tier : TestedTiers()) {
    CAPTURE(static_cast<int>(tier));
    const bool keeps_subnormals = tier < CpuTier::kAvx512Bf16;
    // First whole registers with all special numbers, then each number in a partial register.
    for (std::size_t first = 0; first < 40; ++first) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{7}, x.size() - first}) {
        std::vector<std::uint16_t> y(count + 1, 0x1234);
        select_tier(tier).to_bf16(x.data() + first, y.data(), static_cast<std::int64_t>(count));
        std::int64_t num_wrong = 0;
        for (std::size_t i = 0; i < count; ++i) {
          const float from = x[first + i];
          const std::uint16_t want =
              keeps_subnormals || std::fpclassify(from) != FP_SUBNORMAL
                  ? caption::to_bf16(from).bits
                  : static_cast<std::uint16_t>(bits[first + i] >> 16 & 0x8000u);
          num_wrong += y[i] != want ? 1 : 0;
        }
        CHECK(num_wrong == 0);
        CHECK(y[count] == 0x1234);
      }
    }
  }
}

TEST_SUITE_END();
