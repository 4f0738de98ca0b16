// The inner loops of each tier, where their contracts (kernels/cpu/tier.h) say more than the
// operations on top of them show.
#include "kernels/cpu/tier.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/select_tier.h"
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
    for (float v = -120; v <= 0; v += 0.00073f) x.push_back(v);
    std::vector<float> y = x;
    select_tier(tier).exp_sum(y.data(), static_cast<std::int64_t>(y.size()), 0);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp(static_cast<double>(x[i]));
      // An ulp of a subnormal is the smallest one.
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
      const float sum = select_tier(tier).exp_sum(x.as<float>(), n, 1.0f);
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
      const std::vector<std::uint16_t> a(static_cast<std::size_t>(m * 2 * kPairs), 0x3F80);
      const std::vector<std::uint16_t> panel(2 * kPairs * kColumns, 0x3F80);
      std::vector<float> c(static_cast<std::size_t>((m + kRowsBehind) * kColumns), -7.0F);
      select_tier(tier).panel_gemm({.a = a.data(),
                                    .a_stride = 2 * kPairs,
                                    .panels = panel.data(),
                                    .num_pairs = kPairs,
                                    .num_panels = 1,
                                    .c = c.data(),
                                    .c_stride = kColumns,
                                    .m = m});
      CHECK(std::count(c.begin(), c.begin() + m * kColumns, 2.0F * kPairs) == m * kColumns);
      CHECK(std::count(c.begin() + m * kColumns, c.end(), -7.0F) == kRowsBehind * kColumns);

      const std::vector<std::int8_t> codes(static_cast<std::size_t>(m * 4 * kPairs), -1);
      const std::vector<std::uint8_t> weights(4 * kPairs * kColumns, 255);
      std::vector<std::int32_t> sums(c.size(), -7);
      select_tier(tier).panel8a8({.a = codes.data(),
                                  .a_stride = 4 * kPairs,
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

TEST_SUITE_END();
