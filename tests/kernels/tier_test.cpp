// The inner loops of each tier, where their contracts (kernels/cpu/tier.h) say more than the
// operations on top of them show.
#include "kernels/cpu/tier.h"

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
  for (const CpuTier tier : caption::supported_cpu_tiers()) {
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
  for (const CpuTier tier : caption::supported_cpu_tiers()) {
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

TEST_CASE("accumulate adds term after term: split sums have the bits of whole ones") {
  constexpr std::int64_t kRows = 5;
  constexpr std::int64_t kTerms = 37;
  for (const CpuTier tier : caption::supported_cpu_tiers()) {
    for (const std::int64_t columns : {1, 8, 15, 16, 64, 72, 131}) {
      for (const Element element : {Element::kF32, Element::kBF16, Element::kF16, Element::kI8}) {
        CAPTURE(static_cast<int>(tier));
        CAPTURE(columns);
        CAPTURE(static_cast<int>(element));
        const caption::DType dtype = element == Element::kF32    ? caption::DType::kF32
                                     : element == Element::kBF16 ? caption::DType::kBF16
                                     : element == Element::kF16  ? caption::DType::kF16
                                                                 : caption::DType::kI8;
        const caption::Tensor a = random_f32({kRows, kTerms}, 2);
        const caption::Tensor b = element == Element::kI8 ? random_i8({kTerms, columns}, 3)
                                                          : random_of(dtype, {kTerms, columns}, 3);
        const auto accumulate = accumulate_of(select_tier(tier), element);
        const auto run = [&](std::int64_t first, std::int64_t count, std::int64_t row,
                             std::int64_t rows, caption::Tensor& c) {
          accumulate({.a = a.as<float>() + row * kTerms + first,
                      .a_stride = kTerms,
                      .b = b.view().rows(first, count).raw(),
                      .b_stride = columns,
                      .c = c.as<float>() + row * columns,
                      .c_stride = columns,
                      .m = rows,
                      .n = columns,
                      .k = count});
        };
        caption::Tensor whole = caption::Tensor::zeros(caption::DType::kF32, {kRows, columns});
        run(0, kTerms, 0, kRows, whole);
        caption::Tensor split = caption::Tensor::zeros(caption::DType::kF32, {kRows, columns});
        for (std::int64_t row = 0; row < kRows; ++row) {
          run(0, 16, row, 1, split);
          run(16, 1, row, 1, split);
          run(17, 20, row, 1, split);
        }
        CHECK(same_bits(whole, split));

        const std::vector<double> as = values(a);
        const std::vector<double> bs = values(b);
        std::vector<double> want(kRows * columns, 0.0);
        std::vector<double> tolerance(kRows * columns, 0.0);
        for (std::int64_t i = 0; i < kRows * columns; ++i) {
          for (std::int64_t k = 0; k < kTerms; ++k) {
            const double term = as[i / columns * kTerms + k] * bs[k * columns + i % columns];
            want[i] += term;
            tolerance[i] += (kTerms + 1) * kUnit * std::abs(term);
          }
        }
        check_close(whole.as<float>(), want, tolerance);
      }
    }
  }
}

TEST_SUITE_END();
