#include "kernels/cuda/math.cuh"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/cuda/numbers.cuh"
#include "tensor/dtype.h"

using caption::kernels::cuda::exponential;
using caption::kernels::cuda::gelu;
using caption::kernels::cuda::power_of_two;
using caption::kernels::cuda::sine_cosine;
using caption::kernels::cuda::SineCosine;

namespace {

// The distance of the floats around |x|, 2^-149 of subnormal ones.
double unit_in_last_place(double x) {
  const int exponent = x == 0 ? -149 : std::ilogb(x);
  return std::ldexp(1.0, std::max(exponent, -126) - 23);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/math");

TEST_CASE("exponential() is within one unit in the last place, of subnormal results too") {
  double worst = 0;
  const auto check = [&worst](float x) {
    const double want = std::exp(static_cast<double>(x));
    if (want > static_cast<double>(std::numeric_limits<float>::max())) {
      CHECK(exponential(x) == std::numeric_limits<float>::infinity());
      return;
    }
    const double error = std::abs(static_cast<double>(exponential(x)) - want);
    worst = std::max(worst, error / unit_in_last_place(want));
  };
  for (int i = -1050000; i <= 900000; ++i) check(static_cast<float>(i) * 1e-4F);
  // Every 4099th of all floats of magnitude below 128.
  for (std::uint32_t bits = 0; bits < 0x43000000; bits += 4099) {
    check(std::bit_cast<float>(bits));
    check(-std::bit_cast<float>(bits));
  }
  CAPTURE(worst);
  CHECK(worst <= 1);
  CHECK(exponential(0) == 1);
  CHECK(exponential(-INFINITY) == 0);
  CHECK(exponential(INFINITY) == INFINITY);
  CHECK(std::isnan(exponential(NAN)));
}

TEST_CASE("power_of_two() is within 2^-18 of its result, which is 0 below 2^-126") {
  double worst = 0;
  for (int i = 0; i <= 1260000; ++i) {
    const float x = static_cast<float>(i) * -1e-4F;
    if (x < -126) continue;
    const double want = std::exp2(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(power_of_two(x)) - want) / want);
  }
  CAPTURE(worst);
  CHECK(worst <= 0x1p-18);
  CHECK(power_of_two(0) == 1);
  CHECK(power_of_two(-126) == 0x1p-126F);
  CHECK(power_of_two(std::nextafter(-126.0F, -200.0F)) == 0);
  CHECK(power_of_two(-std::numeric_limits<float>::max()) == 0);
  CHECK(power_of_two(-INFINITY) == 0);
  CHECK(std::isnan(power_of_two(NAN)));
}

TEST_CASE("gelu() is within a few units in the last place, and what z^2 loses on the left") {
  double worst = 0;
  for (int i = -130000; i <= 130000; ++i) {
    const float x = static_cast<float>(i) * 1e-4F;
    const double z = static_cast<double>(x) / std::sqrt(2.0);
    const double want = 0.5 * static_cast<double>(x) * std::erfc(-z);
    const double error = std::abs(static_cast<double>(gelu(x)) - want);
    const double most = x < -1 ? 6 + 6 * z * z : 4;
    worst = std::max(worst, error / unit_in_last_place(want) / most);
  }
  CAPTURE(worst);
  CHECK(worst <= 1);
  CHECK(gelu(0) == 0);
  CHECK(gelu(100) == 100);
  CHECK(gelu(-100) == 0);
  CHECK(gelu(INFINITY) == INFINITY);
  CHECK(std::isnan(gelu(NAN)));
}

TEST_CASE("sine_cosine() is as near as a float can be") {
  double worst = 0;
  const auto check = [&worst](float angle) {
    const SineCosine got = sine_cosine(angle);
    const double sine = std::sin(static_cast<double>(angle));
    const double cosine = std::cos(static_cast<double>(angle));
    for (const auto& [have, want] : {std::pair<double, double>(got.sine, sine),
                                     std::pair<double, double>(got.cosine, cosine)}) {
      // 2^-38 absolutely, beside the rounding to f32.
      const double error = std::max(0.0, std::abs(have - want) - 0x1p-38);
      worst = std::max(worst, error / unit_in_last_place(want));
    }
  };
  for (int i = -400000; i <= 400000; ++i) check(static_cast<float>(i) * 1e-3F);
  for (int i = 0; i < 200000; ++i) {  // the floats nearest to multiples of pi / 2
    check(static_cast<float>(static_cast<double>(i) * 1.5707963267948966));
    check(static_cast<float>(i * 10737));  // up to 2^31
  }
  CAPTURE(worst);
  CHECK(worst <= 0.5);
}

TEST_CASE("numbers are narrowed to bf16 as everywhere else, infinities and NaNs too") {
  int different = 0;
  const auto check = [&different](std::uint32_t bits) {
    const float x = std::bit_cast<float>(bits);
    caption::BF16 got;
    caption::kernels::cuda::narrow(x, got);
    different += got.bits != caption::to_bf16(x).bits;
    if (!std::isnan(x)) different += caption::kernels::cuda::widen(got) != caption::to_float(got);
  };
  for (std::uint64_t bits = 0; bits < 0x100000000; bits += 0x7FF) {
    check(static_cast<std::uint32_t>(bits));
  }
  for (const std::uint32_t sign : {0U, 0x80000000U}) {
    check(sign | 0x7F800000);  // infinity
    check(sign | 0x7F7FFFFF);  // the largest number
    check(sign | 0x7F800001);  // a NaN of which the upper half alone is an infinity
    check(sign | 0x3F808000);  // ties
    check(sign | 0x3F818000);
  }
  CHECK(different == 0);
}

TEST_SUITE_END();
