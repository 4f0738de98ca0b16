// The element-wise functions between the projections, which linear_gelu(), linear_gelu_tanh(),
// linear_quick_gelu() and linear_swiglu() apply (kernels/cpu/tier.h).
#include <limits>
#include <numbers>
#include <vector>

#include "kernels/cpu/select_tier.h"
#include "tests/kernels/testing.h"

using caption::DType;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using namespace caption::testing;

namespace {

constexpr std::int64_t kDims[] = {1, 7, 17, 64, 1025};

// Random values in [-12, 12): the flat tail, the curved middle and the identity.
Tensor wide_values(std::int64_t rows, std::int64_t dim, std::uint32_t seed) {
  Tensor x = random_f32({rows, dim}, seed);
  for (std::int64_t i = 0; i < x.num_elements(); ++i) x.as<float>()[i] *= 12;
  return x;
}

double swish(double x, double beta) { return x / (1 + std::exp(-beta * x)); }

// exp() is within 2 ulp (4 units), plus the rounding of its argument, whose effect is proportional
// to |beta * x|; quotient, sum and product add 3.
double swish_tolerance(double x, double beta, double y) {
  return (8 + 2 * std::abs(beta * x)) * kUnit * std::abs(y);
}

}  // namespace

TEST_SUITE_BEGIN("kernels/activation");

TEST_CASE("swish with a factor and quick_gelu agree with double precision, in place too") {
  for (const std::int64_t dim : kDims) {
    CAPTURE(dim);
    const Tensor x = wide_values(3, dim, 1);
    const Tensor up = random_f32({3, dim}, 2);
    const std::vector<double> xs = values(x);
    const std::vector<double> ups = values(up);
    std::vector<double> silu, quick, silu_tolerance, quick_tolerance;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      silu.push_back(swish(xs[i], 1) * ups[i]);
      silu_tolerance.push_back(swish_tolerance(xs[i], 1, silu.back()));
      const double beta = static_cast<double>(1.702F);
      quick.push_back(swish(xs[i], beta));
      quick_tolerance.push_back(swish_tolerance(xs[i], beta, quick.back()));
    }
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, {3, dim});
      const auto silu_mul = [&](const Tensor& gate, const Tensor& factor, Tensor& to) {
        caption::kernels::cpu::select_tier(stream.cpu_tier())
            .swish({.x = gate.as<float>(),
                    .beta = 1,
                    .factor = factor.as<float>(),
                    .y = to.as<float>(),
                    .n = to.num_elements()});
      };
      silu_mul(x, up, y);
      check_close(y.as<float>(), silu, silu_tolerance);
      Tensor gate = x.clone();
      silu_mul(gate, up, gate);
      CHECK(same_bits(gate, y));
      Tensor other = up.clone();
      silu_mul(x, other, other);
      CHECK(same_bits(other, y));
      quick_gelu(stream, x.view(), y.view());
      check_close(y.as<float>(), quick, quick_tolerance);
    });
  }
}

TEST_CASE("swishes end where they should: zero on the left, the identity on the right") {
  for_each_stream([&](Stream& stream) {
    // Longer than a register, so that both code paths get the extremes.
    Tensor x = random_f32({1, 18}, 3);
    for (std::int64_t i = 0; i < 18; i += 3) {
      x.as<float>()[i] = -200;
      x.as<float>()[i + 1] = 200;
      x.as<float>()[i + 2] = 0;
    }
    quick_gelu(stream, x.view(), x.view());
    for (std::int64_t i = 0; i < 18; i += 3) {
      CHECK(std::abs(x.as<float>()[i]) <= std::numeric_limits<float>::min());
      CHECK(x.as<float>()[i + 1] == 200);
      CHECK(x.as<float>()[i + 2] == 0);
    }
  });
}

TEST_CASE("a NaN stays a NaN in every tier") {
  for_each_stream([&](Stream& stream) {
    Tensor x = random_f32({1, 17}, 4);
    x.as<float>()[2] = x.as<float>()[16] = std::numeric_limits<float>::quiet_NaN();
    quick_gelu(stream, x.view(), x.view());
    CHECK(std::isnan(x.as<float>()[2]));
    CHECK(std::isnan(x.as<float>()[16]));
    CHECK_FALSE(std::isnan(x.as<float>()[3]));
  });
}

TEST_CASE("gelu_erf agrees with double precision") {
  for (const std::int64_t dim : kDims) {
    CAPTURE(dim);
    const Tensor x = wide_values(2, dim, 5);
    const std::vector<double> xs = values(x);
    std::vector<double> want, tolerance;
    for (const double v : xs) {
      want.push_back(0.5 * v * (1 + std::erf(v / std::sqrt(2.0))));
      // 1 + erf cancels for negative x: its error is absolute, a few units of 1.
      tolerance.push_back(4 * kUnit * std::abs(v));
    }
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, {2, dim});
      gelu_erf(stream, x.view(), y.view());
      check_close(y.as<float>(), want, tolerance);
    });
  }
}

TEST_CASE("gelu_erf is good to a few units of its own size on the left in the vector tiers") {
  // Arguments in [-13, 0), where the result is a normal number.
  constexpr std::int64_t kCount = 1 << 16;
  Tensor x(DType::kF32, {1, kCount});
  for (std::int64_t i = 0; i < kCount; ++i) {
    x.as<float>()[i] = -13.0F * static_cast<float>(i + 1) / static_cast<float>(kCount);
  }
  std::vector<double> want, tolerance;
  for (const double v : values(x)) {
    want.push_back(0.5 * v * std::erfc(-v / std::sqrt(2.0)));
    // The polynomial and its factors have 9 roundings. exp() multiplies the relative roundings of
    // its argument x^2 / 2 by the argument: 2 x^2, for two roundings.
    tolerance.push_back((9 + 2 * v * v) * kUnit * std::abs(want.back()));
  }
  for (const caption::CpuTier tier : TestedTiers()) {
    // The reference tier cancels, as torch does.
    if (tier == caption::CpuTier::kReference) continue;
    CAPTURE(std::string(caption::cpu_tier_name(tier)));
    ThreadPool pool(1);
    Stream stream(pool, tier);
    Tensor y(DType::kF32, {1, kCount});
    gelu_erf(stream, x.view(), y.view());
    check_close(y.as<float>(), want, tolerance);
  }
}

TEST_CASE("gelu_erf ends where it should, and a NaN stays one") {
  for_each_stream([&](Stream& stream) {
    Tensor x = random_f32({1, 20}, 11);
    for (std::int64_t i = 0; i < 20; i += 4) {
      x.as<float>()[i] = -20;
      x.as<float>()[i + 1] = std::numeric_limits<float>::max();
      x.as<float>()[i + 2] = std::numeric_limits<float>::infinity();
      x.as<float>()[i + 3] = std::numeric_limits<float>::quiet_NaN();
    }
    Tensor y(DType::kF32, {1, 20});
    gelu_erf(stream, x.view(), y.view());
    for (std::int64_t i = 0; i < 20; i += 4) {
      CHECK(y.as<float>()[i] == 0);
      CHECK(y.as<float>()[i + 1] == std::numeric_limits<float>::max());
      CHECK(y.as<float>()[i + 2] == std::numeric_limits<float>::infinity());
      CHECK(std::isnan(y.as<float>()[i + 3]));
    }
  });
}

TEST_CASE("gelu_tanh agrees with double precision") {
  // exp() of binary32 overflows from 88.7 on: the exact result is then below 16 / 2^128.
  constexpr double kOverflow = 0x1p-124;
  for (const std::int64_t dim : kDims) {
    CAPTURE(dim);
    const Tensor x = wide_values(2, dim, 12);
    std::vector<double> want, tolerance;
    for (const double v : values(x)) {
      const double power = -2 * std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v);
      want.push_back(v / (1 + std::exp(power)));
      // The argument of exp() has six factors and roundings and the error of two constants.
      tolerance.push_back((8 + 8 * std::abs(power)) * kUnit * std::abs(want.back()) + kOverflow);
    }
    for_each_stream([&](Stream& stream) {
      Tensor y(DType::kF32, {2, dim});
      gelu_tanh(stream, x.view(), y.view());
      check_close(y.as<float>(), want, tolerance);
      Tensor in_place = x.clone();
      gelu_tanh(stream, in_place.view(), in_place.view());
      CHECK(same_bits(in_place, y));
    });
  }
}

TEST_CASE("gelu_tanh ends where it should, and a NaN stays one") {
  for_each_stream([&](Stream& stream) {
    Tensor x = random_f32({1, 20}, 13);
    for (std::int64_t i = 0; i < 20; i += 4) {
      x.as<float>()[i] = -20;
      x.as<float>()[i + 1] = std::numeric_limits<float>::max();
      x.as<float>()[i + 2] = 0;
      x.as<float>()[i + 3] = std::numeric_limits<float>::quiet_NaN();
    }
    Tensor y(DType::kF32, {1, 20});
    gelu_tanh(stream, x.view(), y.view());
    for (std::int64_t i = 0; i < 20; i += 4) {
      CHECK(y.as<float>()[i] == 0);
      CHECK(y.as<float>()[i + 1] == std::numeric_limits<float>::max());
      CHECK(y.as<float>()[i + 2] == 0);
      CHECK(std::isnan(y.as<float>()[i + 3]));
    }
  });
}

TEST_CASE("an element's bits do not depend on its place in the row") {
  const Tensor x = wide_values(1, 50, 8);
  for_each_stream([&](Stream& stream) {
    Tensor whole(DType::kF32, {1, 50});
    quick_gelu(stream, x.view(), whole.view());
    Tensor single(DType::kF32, {1, 50});
    for (std::int64_t i = 0; i < 50; ++i) {
      const caption::ConstView one(x.as<float>() + i, DType::kF32, {1, 1});
      quick_gelu(stream, one, single.view().columns(i, 1));
    }
    CHECK(same_bits(whole, single));
  });
}

TEST_SUITE_END();
