#include "tensor/dtype.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/error.h"

using caption::BF16;
using caption::DType;
using caption::F16;
using caption::to_bf16;
using caption::to_f16;
using caption::to_float;

namespace {

// Returns the value of an f16 by its definition (IEEE 754), in double precision.
double f16_value(std::uint32_t bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> 10 & 0x1Fu);
  const double mantissa = bits & 0x3FFu;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

bool is_nan_f16(std::uint32_t bits) { return (bits & 0x7FFFu) > 0x7C00u; }
bool is_nan_bf16(std::uint32_t bits) { return (bits & 0x7FFFu) > 0x7F80u; }

// Two neighbouring values of a 16-bit format, for rounding the floats between them.
struct Neighbours {
  float below;
  float above;
  std::uint16_t below_bits;
  std::uint16_t above_bits;
};

template <class Convert>
int count_misrounded(const Neighbours& n, Convert convert) {
  const float middle = n.below / 2 + n.above / 2;  // exact: needs one bit more than the format has
  const std::uint16_t even = (n.below_bits & 1u) == 0 ? n.below_bits : n.above_bits;
  int wrong = 0;
  wrong += convert(std::nextafterf(middle, n.below)).bits != n.below_bits;
  wrong += convert(middle).bits != even;
  wrong += convert(std::nextafterf(middle, n.above)).bits != n.above_bits;
  return wrong;
}

}  // namespace

TEST_SUITE_BEGIN("tensor/dtype");

TEST_CASE("every f16 pattern widens to its value and comes back") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float wide = to_float(F16{static_cast<std::uint16_t>(bits)});
    if (is_nan_f16(bits)) {
      wrong += !std::isnan(wide) || !is_nan_f16(to_f16(wide).bits);
      continue;
    }
    const bool is_infinite = (bits & 0x7FFFu) == 0x7C00u;
    wrong += is_infinite ? !std::isinf(wide) : static_cast<double>(wide) != f16_value(bits);
    wrong += to_f16(wide).bits != bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("every bf16 pattern widens to the upper half of a float and comes back") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float wide = to_float(BF16{static_cast<std::uint16_t>(bits)});
    if (is_nan_bf16(bits)) {
      wrong += !std::isnan(wide) || !is_nan_bf16(to_bf16(wide).bits);
      continue;
    }
    wrong += std::bit_cast<std::uint32_t>(wide) != bits << 16;
    wrong += to_bf16(wide).bits != bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("between any two f16 neighbours, floats round to the nearer, ties to even") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x7BFFu; ++bits) {
    const auto below = static_cast<std::uint16_t>(bits);
    const auto above = static_cast<std::uint16_t>(bits + 1);
    wrong += count_misrounded({to_float(F16{below}), to_float(F16{above}), below, above}, to_f16);
    const auto minus = [](std::uint16_t b) { return static_cast<std::uint16_t>(b | 0x8000u); };
    wrong += count_misrounded(
        {-to_float(F16{below}), -to_float(F16{above}), minus(below), minus(above)}, to_f16);
  }
  CHECK(wrong == 0);
}

TEST_CASE("between any two bf16 neighbours, floats round to the nearer, ties to even") {
  int wrong = 0;
  // Starts with normal numbers: halving a subnormal neighbour would lose a bit that the test needs.
  for (std::uint32_t bits = 0x0100u; bits < 0x7F7Fu; ++bits) {
    const auto below = static_cast<std::uint16_t>(bits);
    const auto above = static_cast<std::uint16_t>(bits + 1);
    wrong +=
        count_misrounded({to_float(BF16{below}), to_float(BF16{above}), below, above}, to_bf16);
  }
  CHECK(wrong == 0);
}

TEST_CASE("overflow is infinity and keeps its sign") {
  CHECK(to_f16(65519.996F).bits == 0x7BFF);
  CHECK(to_f16(65520.0F).bits == 0x7C00);
  CHECK(to_f16(-1e30F).bits == 0xFC00);
  CHECK(to_f16(-std::numeric_limits<float>::infinity()).bits == 0xFC00);
  CHECK(to_bf16(std::numeric_limits<float>::max()).bits == 0x7F80);
  CHECK(to_bf16(-std::numeric_limits<float>::max()).bits == 0xFF80);
}

TEST_CASE("a NaN whose payload lies in the lost bits stays a NaN") {
  const float nan = std::bit_cast<float>(0x7F800001u);
  CHECK(is_nan_bf16(to_bf16(nan).bits));
  CHECK(is_nan_f16(to_f16(nan).bits));
}

TEST_CASE("a floating dtype is dispatched to its type, another refused by name") {
  CHECK(caption::dispatch_float(DType::kBF16, [](auto x) { return sizeof(x); }) == 2);
  CHECK(caption::dispatch_float(DType::kF32, [](auto x) { return sizeof(x); }) == 4);
  CHECK_THROWS_WITH_AS(caption::dispatch_float(DType::kI8, [](auto) {}),
                       "dtype: found i8; wanted one of f32, bf16, f16", caption::Error);
}

TEST_SUITE_END();
