// Quantisation of a row to 8 bits gives the same bits in every tier.
#include <limits>
#include <vector>

#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/tier.h"
#include "tests/kernels/testing.h"

using caption::CpuTier;
using caption::kernels::cpu::IntegerRow;
using caption::kernels::cpu::select_tier;
using namespace caption::testing;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Rounded {
  IntegerRow row;
  std::vector<std::int8_t> codes;  // followed by two sentinels
};

Rounded round(CpuTier tier, const std::vector<float>& x) {
  Rounded rounded{.row = {}, .codes = std::vector<std::int8_t>(x.size() + 2, 99)};
  rounded.row = select_tier(tier).to_int8(x.data(), rounded.codes.data(),
                                          static_cast<std::int64_t>(x.size()));
  return rounded;
}

std::vector<float> random_row(std::int64_t n, float largest) {
  const caption::Tensor x = random_f32({n}, static_cast<std::uint32_t>(n));
  std::vector<float> row(x.as<float>(), x.as<float>() + n);
  for (float& value : row) value *= largest;
  return row;
}

}  // namespace

TEST_SUITE_BEGIN("kernels/to_int8");

TEST_CASE("every tier has the codes, the scale and the sum of the reference") {
  std::vector<std::vector<float>> rows;
  for (const std::int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 100, 1024}) {
    for (const float largest : {1.0F, 3e38F, 1e-20F, 1e-37F})
      rows.push_back(random_row(n, largest));
  }
  std::vector<float> ties;  // ties between codes, for a largest magnitude of 127
  for (int step = -127; step < 127; ++step) ties.push_back(static_cast<float>(step) + 0.5F);
  ties.push_back(127);
  rows.push_back(ties);
  rows.push_back({0x1p-149F, -0x1p-149F, 0, 0x1p-149F});
  rows.push_back(std::vector<float>(37, 0.0F));
  rows.push_back({-0.0F, 0.0F});
  for (const CpuTier tier : TestedTiers()) {
    INFO("tier ", std::string(caption::cpu_tier_name(tier)));
    for (const std::vector<float>& row : rows) {
      CAPTURE(row.size());
      const Rounded want = round(CpuTier::kReference, row);
      const Rounded got = round(tier, row);
      CHECK(got.codes == want.codes);
      CHECK(got.row.scale == want.row.scale);
      CHECK(got.row.sum == want.row.sum);
    }
  }
}

TEST_CASE("a code is at most half a step away; the largest magnitude is 127 steps") {
  for (const std::int64_t n : {5, 16, 70}) {
    const std::vector<float> row = random_row(n, 4.0F);
    double largest = 0;
    for (const float value : row) largest = std::max(largest, std::abs(static_cast<double>(value)));
    for (const CpuTier tier : TestedTiers()) {
      const Rounded rounded = round(tier, row);
      std::int32_t sum = 0;
      int largest_code = 0;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const int code = rounded.codes[i];
        sum += code;
        largest_code = std::max(largest_code, std::abs(code));
        // x / step, a number up to 127, is computed with two roundings.
        CHECK(std::abs(static_cast<double>(row[i]) / largest * 127 - code) <=
              0.5 + 127 * 2 * kUnit);
      }
      CHECK(largest_code == 127);
      CHECK(rounded.row.sum == sum);
      CHECK(std::abs(static_cast<double>(rounded.row.scale) * 127 - largest) <= kUnit * largest);
      CHECK(rounded.codes[row.size()] == 99);
      CHECK(rounded.codes[row.size() + 1] == 99);
    }
  }
}

TEST_CASE("an infinity or a NaN anywhere makes the scale NaN and the codes zero") {
  for (const CpuTier tier : TestedTiers()) {
    for (const float odd : {kInfinity, -kInfinity, kNan, -kNan}) {
      for (const std::size_t at : {0, 3, 8, 16, 20}) {
        std::vector<float> row(21, 1.0F);
        row[at] = odd;
        const Rounded rounded = round(tier, row);
        CHECK(std::isnan(rounded.row.scale));
        CHECK(rounded.row.sum == 0);
        for (std::size_t i = 0; i < row.size(); ++i) CHECK(rounded.codes[i] == 0);
        CHECK(rounded.codes[row.size()] == 99);
      }
    }
  }
}

TEST_SUITE_END();
