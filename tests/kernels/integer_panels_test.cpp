// Products of integers: each tier, and the templates of AVX-VNNI on registers in software, beside
// the plain loops.
#include <array>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cpu/internal/simd_nibble_panels.h"
#include "kernels/cpu/internal/simd_quad_panels.h"
#include "kernels/cpu/select_tier.h"
#include "tests/kernels/ordered_rows.h"
#include "tests/kernels/testing.h"

using caption::CpuTier;
using caption::kernels::cpu::Integer4Args;
using caption::kernels::cpu::IntegerArgs;
using caption::kernels::cpu::select_tier;
using caption::kernels::cpu::Tier;
using namespace caption::testing;

namespace {

constexpr std::int64_t kColumns = caption::kernels::cpu::kPanelColumns;

// What kernels/cpu/avxvnni does, on any machine.
struct SoftwareVnni {
  using Integers = std::array<std::int32_t, 8>;
  static constexpr int kWidth = 8;
  static constexpr int kQuadRows = 6;
  static constexpr int kNibbleRows = 6;
  static constexpr std::int64_t kSafeQuads = caption::kernels::cpu::kMaxGroupQuads;

  static Integers zero_integers() { return {}; }
  static Integers load_bits(const void* x) {
    Integers bits;
    std::memcpy(bits.data(), x, sizeof bits);
    return bits;
  }
  static void store_integers(std::int32_t* y, const Integers& x) {
    std::memcpy(y, x.data(), sizeof x);
  }
  static Integers widen_u8(const std::uint8_t* x) {
    Integers y;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i];
    return y;
  }
  static Integers load_steps(const std::uint8_t* x) { return widen_u8(x); }
  static Integers low_nibbles(const Integers& x) {
    Integers y;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] & 0x0F0F0F0F;
    return y;
  }
  static Integers high_nibbles(const Integers& x) {
    Integers y;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] >> 4 & 0x0F0F0F0F;
    return y;
  }
  static Integers broadcast_bytes(const void* x) {
    Integers y;
    std::memcpy(y.data(), x, sizeof y[0]);
    y.fill(y[0]);
    return y;
  }
  static Integers broadcast_word(std::int16_t x) {
    Integers y;
    y.fill(static_cast<std::uint16_t>(x));
    return y;
  }
  static Integers multiply_add_bytes(const Integers& x, const Integers& y, Integers z) {
    std::array<std::uint8_t, 32> weights;
    std::array<std::int8_t, 32> rows;
    std::memcpy(weights.data(), x.data(), sizeof weights);
    std::memcpy(rows.data(), y.data(), sizeof rows);
    for (std::size_t i = 0; i < weights.size(); ++i) z[i / 4] += weights[i] * rows[i];
    return z;
  }
  static Integers multiply_bytes(const Integers& x, const Integers& y) {
    return multiply_add_bytes(x, y, {});
  }
  static Integers pair_words(Integers x, const Integers& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] |= y[i] << 16;
    return x;
  }
  static Integers multiply_add_pairs(const Integers& x, const Integers& y, Integers z) {
    for (std::size_t i = 0; i < z.size(); ++i) {
      for (const int shift : {0, 16}) {
        z[i] += static_cast<std::int16_t>(x[i] >> shift) * static_cast<std::int16_t>(y[i] >> shift);
      }
    }
    return z;
  }
  static Integers multiply_add_steps(const Integers& sums, const Integers& steps, Integers z) {
    for (std::size_t i = 0; i < z.size(); ++i) z[i] += sums[i] * steps[i];
    return z;
  }
};

// Activations and weights at random, but for row 0 and feature 0, which have the numbers of the
// largest magnitude.
struct Panel {
  std::int64_t quads, group_quads, m;
  std::int64_t groups = (quads + group_quads - 1) / group_quads;
  std::int64_t stride = 4 * quads + 3;
  std::vector<std::int8_t> a = std::vector<std::int8_t>(static_cast<std::size_t>(m * stride));
  std::vector<std::uint8_t> weights =
      std::vector<std::uint8_t>(static_cast<std::size_t>(4 * quads * kColumns));
  std::vector<std::uint8_t> codes =
      std::vector<std::uint8_t>(static_cast<std::size_t>(2 * quads * kColumns));
  std::vector<std::uint8_t> steps =
      std::vector<std::uint8_t>(static_cast<std::size_t>(groups * 2 * kColumns));
  std::vector<std::int16_t> sums = std::vector<std::int16_t>(static_cast<std::size_t>(m * groups));

  void fill(std::mt19937& engine) {
    std::uniform_int_distribution<int> byte(0, 255);
    for (std::int8_t& code : a) code = static_cast<std::int8_t>(byte(engine) - 128);
    for (std::uint8_t& code : weights) code = static_cast<std::uint8_t>(byte(engine));
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(byte(engine));
    std::fill_n(a.begin(), 4 * quads, std::int8_t{-128});
    for (std::int64_t quad = 0; quad < quads; ++quad) {
      std::fill_n(weights.begin() + quad * 4 * kColumns, 4, std::uint8_t{255});
      std::fill_n(codes.begin() + quad * 2 * kColumns, 4, std::uint8_t{255});
    }
    for (std::int64_t g = 0; g < groups; ++g) {
      std::uint8_t* const of_group = steps.data() + g * 2 * kColumns;
      for (std::int64_t n = 0; n < kColumns; ++n) {
        const int step = n == 0 ? 17 : byte(engine) / 15;
        of_group[n] = static_cast<std::uint8_t>(step);
        of_group[kColumns + n] = static_cast<std::uint8_t>(byte(engine) % (256 - 15 * step));
      }
    }
    for (std::int64_t r = 0; r < m; ++r) {
      for (std::int64_t k = 0; k < 4 * quads; ++k) {
        auto& sum = sums[static_cast<std::size_t>(r * groups + k / (4 * group_quads))];
        sum = static_cast<std::int16_t>(sum + a[static_cast<std::size_t>(r * stride + k)]);
      }
    }
  }

  // The panel with its activations in the order that the tier reads.
  Panel ordered_for(const Tier& tier) const {
    Panel ordered = *this;
    if (!tier.reads_tiled_rows) return ordered;
    std::vector<std::int8_t> rows;
    for (std::int64_t r = 0; r < m; ++r) {
      rows.insert(rows.end(), a.begin() + r * stride, a.begin() + r * stride + 4 * quads);
    }
    auto [elements, row_stride] = ordered_rows(rows, m, 4 * quads, true);
    ordered.a = std::move(elements);
    ordered.stride = row_stride;
    return ordered;
  }

  std::vector<std::int32_t> products(void (*panel8a8)(const IntegerArgs&)) const {
    std::vector<std::int32_t> c(static_cast<std::size_t>(m * kColumns), -7);
    panel8a8({.a = a.data(),
              .a_stride = stride,
              .panel = weights.data(),
              .num_quads = quads,
              .c = c.data(),
              .c_stride = kColumns,
              .m = m});
    return c;
  }

  std::vector<std::int32_t> products(void (*panel4a8)(const Integer4Args&)) const {
    std::vector<std::int32_t> c(static_cast<std::size_t>(m * kColumns), -7);
    panel4a8({.a = a.data(),
              .a_stride = stride,
              .a_sums = sums.data(),
              .a_sums_stride = groups,
              .codes = codes.data(),
              .steps = steps.data(),
              .num_quads = quads,
              .group_quads = group_quads,
              .c = c.data(),
              .c_stride = kColumns,
              .m = m});
    return c;
  }
};

}  // namespace

TEST_SUITE_BEGIN("kernels/integer_panels");

// Numbers of quads: one, odd, around a chunk of 128 and of several, so that sums continue between
// chunks. Groups have as many columns as 16 bits can sum, more, and the most; the last one may be
// shorter.
TEST_CASE("products of integers are exact, also at the ends of their ranges") {
  std::mt19937 engine(7);
  for (const auto& [quads, group_quads] : {std::pair<std::int64_t, std::int64_t>{1, 8},
                                           {3, 32},
                                           {29, 16},
                                           {127, 8},
                                           {128, 32},
                                           {129, 32},
                                           {300, 32}}) {
    for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 11, 13, 19}) {
      CAPTURE(quads);
      CAPTURE(m);
      Panel panel{.quads = quads, .group_quads = group_quads, .m = m};
      panel.fill(engine);
      const auto want8 = panel.products(caption::kernels::cpu::panel8a8_reference);
      const auto want4 = panel.products(caption::kernels::cpu::panel4a8_reference);
      REQUIRE(want8[0] == -128 * 255 * 4 * quads);
      REQUIRE(want4[0] == want8[0]);
      for (const CpuTier tier : TestedTiers()) {
        CAPTURE(static_cast<int>(tier));
        const Tier& functions = select_tier(tier);
        const Panel ordered = panel.ordered_for(functions);
        CHECK(ordered.products(functions.panel8a8) == want8);
        CHECK(ordered.products(functions.panel4a8) == want4);
      }
      CHECK(panel.products(caption::kernels::cpu::panel8a8_by_quads<SoftwareVnni>) == want8);
      CHECK(panel.products(caption::kernels::cpu::panel4a8<SoftwareVnni>) == want4);
    }
  }
}

TEST_SUITE_END();
