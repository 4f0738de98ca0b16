// The functions between the sums and the output of a dense layer: all tiers give the same bits, and
// nothing outside the output is written.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/tier.h"
#include "tests/kernels/testing.h"

using caption::CpuTier;
using caption::kernels::cpu::IntegerRow;
using caption::kernels::cpu::kPanelColumns;
using caption::kernels::cpu::select_tier;
using namespace caption::testing;

namespace {

constexpr float kUntouched = 12345.0F;

std::vector<float> random_floats(std::int64_t count, std::uint32_t seed) {
  const caption::Tensor x = random_f32({count}, seed);
  return {x.as<float>(), x.as<float>() + count};
}

// Returns y [m, stride], of which only n elements per row may be written.
std::vector<float> with_bias(CpuTier tier, std::int64_t m, std::int64_t n, bool add,
                             bool is_scaled = false) {
  const std::int64_t stride = n + 3;
  const std::vector<float> x = random_floats(m * (n + 1), 1);
  const std::vector<float> bias = random_floats(n, 2);
  const std::vector<float> scale = random_floats(n, 4);
  std::vector<float> y(static_cast<std::size_t>(m * stride), kUntouched);
  const std::vector<float> before = random_floats(m * n, 3);
  for (std::int64_t i = 0; i < m * n; ++i) {
    y[static_cast<std::size_t>(i / n * stride + i % n)] = before[static_cast<std::size_t>(i)];
  }
  select_tier(tier).add_bias({.x = x.data(),
                              .x_stride = n + 1,
                              .bias = bias.data(),
                              .scale = is_scaled ? scale.data() : nullptr,
                              .y = y.data(),
                              .y_stride = stride,
                              .m = m,
                              .n = n,
                              .add = add});
  return y;
}

std::vector<float> scaled(CpuTier tier, std::int64_t m) {
  constexpr std::int64_t kStride = kPanelColumns + 5;
  std::mt19937 random(4);
  std::vector<std::int32_t> sums(static_cast<std::size_t>(m * kPanelColumns));
  // Sums of both signs up to 10^9, half of what K = 65,536 columns of 127 * 255 can reach.
  for (std::int32_t& sum : sums) {
    sum = std::uniform_int_distribution<std::int32_t>(-1'000'000'000, 1'000'000'000)(random);
  }
  std::vector<IntegerRow> rows;
  for (std::int64_t i = 0; i < m; ++i) {
    rows.push_back({.scale = 0.37F * static_cast<float>(i + 1),
                    .sum = static_cast<std::int32_t>(i % 2 == 0 ? 8'000'000 : -8'000'000)});
  }
  if (m > 2) rows[2].scale = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> scales = random_floats(kPanelColumns, 5);
  std::vector<float> y(static_cast<std::size_t>(m * kStride), kUntouched);
  select_tier(tier).scale_integers({.sums = sums.data(),
                                    .rows = rows.data(),
                                    .scales = scales.data(),
                                    .y = y.data(),
                                    .y_stride = kStride,
                                    .m = m});
  return y;
}

bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool both_nan = std::isnan(a[i]) && std::isnan(b[i]);
    if (a[i] != b[i] && !both_nan) return false;
  }
  return true;
}

}  // namespace

TEST_SUITE_BEGIN("kernels/tile_outputs");

TEST_CASE("a bias is added, and the sum scaled, alike in every tier, whatever the width") {
  for (const CpuTier tier : TestedTiers()) {
    CAPTURE(std::string(caption::cpu_tier_name(tier)));
    for (const std::int64_t n : {1, 7, 8, 9, 15, 16, 17, 31, 33, 64}) {
      CAPTURE(n);
      for (const bool add : {false, true}) {
        const std::vector<float> want = with_bias(CpuTier::kReference, 3, n, add);
        CHECK(same_floats(with_bias(tier, 3, n, add), want));
        CHECK(want[static_cast<std::size_t>(n)] == kUntouched);
        CHECK(same_floats(with_bias(tier, 3, n, add, true),
                          with_bias(CpuTier::kReference, 3, n, add, true)));
      }
    }
  }
  const float x = random_floats(2, 1)[0];
  const float sum = x + random_floats(1, 2)[0];
  CHECK(with_bias(CpuTier::kReference, 1, 1, false)[0] == sum);
  CHECK(with_bias(CpuTier::kReference, 1, 1, true)[0] == random_floats(1, 3)[0] + sum);
  const float product = sum * random_floats(1, 4)[0];
  CHECK(with_bias(CpuTier::kReference, 1, 1, false, true)[0] == product);
  CHECK(with_bias(CpuTier::kReference, 1, 1, true, true)[0] == random_floats(1, 3)[0] + product);
}

TEST_CASE("sums of integers become floats alike in every tier") {
  for (const CpuTier tier : TestedTiers()) {
    CAPTURE(std::string(caption::cpu_tier_name(tier)));
    for (const std::int64_t m : {1, 2, 5}) {
      CHECK(same_floats(scaled(tier, m), scaled(CpuTier::kReference, m)));
    }
  }
}

TEST_SUITE_END();
