#include "tests/support/cuda/tensor_core.h"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>

#include "tensor/dtype.h"
#include "tensor/e4m3.h"

using caption::from_e4m3;
using caption::to_bf16;
using caption::to_e4m3;
using caption::to_f16;
using caption::to_float;
using caption::cuda_emulator::HalfType;
using caption::cuda_emulator::MatrixA;
using caption::cuda_emulator::MatrixA8;
using caption::cuda_emulator::MatrixB;
using caption::cuda_emulator::MatrixB8;
using caption::cuda_emulator::MatrixC;
using caption::cuda_emulator::multiply_add;
using caption::cuda_emulator::multiply_add_e4m3;
using caption::cuda_emulator::TensorCoreSums;

namespace {

constexpr TensorCoreSums kAll[] = {TensorCoreSums::kAmpere, TensorCoreSums::kHopper,
                                   TensorCoreSums::kFused};

// c + sum of a[k] * b[k], of bf16 numbers; products not given are 0.
struct Term {
  int k;
  float a, b;
};
float sum_of(TensorCoreSums sums, float c, std::initializer_list<Term> terms) {
  MatrixA a{};
  MatrixB b{};
  MatrixC result{};
  for (const Term& term : terms) {
    a.element[3][term.k] = to_bf16(term.a).bits;
    b.element[term.k][5] = to_bf16(term.b).bits;
  }
  result.element[3][5] = c;
  multiply_add(sums, HalfType::kBF16, a, b, result);
  return result.element[3][5];
}

// The same of e4m3 numbers.
float sum_of_e4m3(TensorCoreSums sums, float c, std::initializer_list<Term> terms) {
  MatrixA8 a{};
  MatrixB8 b{};
  MatrixC result{};
  for (const Term& term : terms) {
    a.element[3][term.k] = to_e4m3(term.a);
    b.element[term.k][5] = to_e4m3(term.b);
  }
  result.element[3][5] = c;
  multiply_add_e4m3(sums, a, b, result);
  return result.element[3][5];
}

}  // namespace

TEST_SUITE_BEGIN("cuda/tensor_core");

TEST_CASE("bits below the fraction of the largest term are cut before the sum") {
  using enum TensorCoreSums;
  constexpr float kUlp = 0x1p-23F;  // the unit in the last place of 1
  // Two halves of a unit: 24 fractional bits keep them, a rounding after each does not.
  CHECK(sum_of(kAmpere, 1, {{0, 0x1p-24F, 1}, {1, 0x1p-24F, 1}}) == 1 + kUlp);
  CHECK(sum_of(kHopper, 1, {{0, 0x1p-24F, 1}, {1, 0x1p-24F, 1}}) == 1 + kUlp);
  CHECK(sum_of(kFused, 1, {{0, 0x1p-24F, 1}, {1, 0x1p-24F, 1}}) == 1);
  // Four quarters: Hopper's 25 bits keep them, Ampere's 24 do not.
  const auto quarters = {Term{0, 0x1p-25F, 1}, Term{1, 0x1p-25F, 1}, Term{2, 0x1p-25F, 1},
                         Term{3, 0x1p-25F, 1}};
  CHECK(sum_of(kAmpere, 1, quarters) == 1);
  CHECK(sum_of(kHopper, 1, quarters) == 1 + kUlp);
  // Eight eighths are lost to both.
  CHECK(sum_of(kHopper, 1,
               {{0, 0x1p-26F, 1},
                {1, 0x1p-26F, 1},
                {2, 0x1p-26F, 1},
                {3, 0x1p-26F, 1},
                {4, 0x1p-26F, 1},
                {5, 0x1p-26F, 1},
                {6, 0x1p-26F, 1},
                {7, 0x1p-26F, 1}}) == 1);
}

TEST_CASE("a step is 8 products on Ampere and 16 on Hopper") {
  using enum TensorCoreSums;
  const auto far_apart = {Term{7, 0x1p-24F, 1}, Term{8, 0x1p-24F, 1}};
  CHECK(sum_of(kAmpere, 1, far_apart) == 1);
  CHECK(sum_of(kHopper, 1, far_apart) == 1 + 0x1p-23F);
}

TEST_CASE("sums are cut towards zero, not rounded") {
  using enum TensorCoreSums;
  for (const TensorCoreSums sums : {kAmpere, kHopper}) {
    const float cut = 1 + 0x1p-23F;
    CHECK(sum_of(sums, cut, {{0, 0x1p-24F, 1}}) == cut);
    CHECK(sum_of(sums, -cut, {{0, 0x1p-24F, -1}}) == -cut);
  }
  CHECK(sum_of(kFused, 1 + 0x1p-23F, {{0, 0x1p-24F, 1}}) == 1 + 0x1p-22F);  // ties to even
}

TEST_CASE("a product's exponent is the sum of its factors', so it may be cut one bit later") {
  using enum TensorCoreSums;
  // 1.5 * 1.5 = 2.25 is aligned as a number of [1, 2): its 24 fractional bits hold 2^-24.
  CHECK(sum_of(kAmpere, 0,
               {{0, 1.5F, 1.5F},
                {1, 0x1p-24F, 1},
                {2, 0x1p-24F, 1},
                {3, 0x1p-24F, 1},
                {4, 0x1p-24F, 1}}) == 2.25F + 0x1p-22F);
}

TEST_CASE("numbers, subnormal ones too, cancel, vanish and overflow as exact sums do") {
  for (const TensorCoreSums sums : kAll) {
    CAPTURE(static_cast<int>(sums));
    CHECK(sum_of(sums, 0, {}) == 0);
    CHECK(sum_of(sums, 3, {{0, -1, 3}}) == 0);
    CHECK(sum_of(sums, 0, {{0, 0x1p100F, 1}, {1, -0x1p100F, 1}, {2, 5, 1}}) ==
          (sums == TensorCoreSums::kFused ? 5 : 0));
    CHECK(sum_of(sums, 0x1p-149F, {{0, 0x1p-100F, 0x1p-49F}}) == 0x1p-148F);
    CHECK(sum_of(sums, 0x1p-127F, {{0, 0x1p-127F, 1}}) == 0x1p-126F);  // a bf16 subnormal
    CHECK(sum_of(sums, 0, {{0, 0x1p127F, 2}}) == std::numeric_limits<float>::infinity());
    CHECK(std::isnan(sum_of(sums, 0, {{0, INFINITY, 1}, {1, -INFINITY, 1}})));
    CHECK(sum_of(sums, 0, {{0, INFINITY, 1}}) == INFINITY);
    CHECK(std::isnan(sum_of(sums, NAN, {})));
  }
}

TEST_CASE("random sums are within the bits that a step may cut, in both types") {
  std::mt19937 generator(11);
  const auto number = [&generator] {
    const float magnitude = static_cast<float>(generator() >> 8) * 0x1p-24F;
    return std::ldexp(magnitude * 2 - 1, static_cast<int>(generator() % 12) - 6);
  };
  for (const HalfType type : {HalfType::kBF16, HalfType::kF16}) {
    const auto narrow = [type](float x) {
      return type == HalfType::kBF16 ? to_bf16(x).bits : to_f16(x).bits;
    };
    const auto widen = [type](std::uint16_t x) -> double {
      return type == HalfType::kBF16 ? to_float(caption::BF16{x}) : to_float(caption::F16{x});
    };
    MatrixA a;
    MatrixB b;
    MatrixC c;
    for (auto& row : a.element)
      for (std::uint16_t& x : row) x = narrow(number());
    for (auto& row : b.element)
      for (std::uint16_t& x : row) x = narrow(number());
    for (auto& row : c.element)
      for (float& x : row) x = number();
    for (const TensorCoreSums sums : kAll) {
      CAPTURE(static_cast<int>(sums));
      MatrixC got = c;
      multiply_add(sums, type, a, b, got);
      int wrong = 0;
      for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 8; ++j) {
          double want = c.element[i][j];
          double magnitude = std::abs(want);
          for (int k = 0; k < 16; ++k) {
            const double product = widen(a.element[i][k]) * widen(b.element[k][j]);
            want += product;
            magnitude += std::abs(product);
          }
          // A step cuts at most 17 terms by 2^-24 of the largest and its sum by 2^-23; there are at
          // most two. 16 roundings of 2^-24 are less.
          const double tolerance = 2 * (17 * 0x1p-24 + 0x1p-23) * magnitude;
          if (!(std::abs(got.element[i][j] - want) <= tolerance)) ++wrong;
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("of e4m3 numbers Ada keeps 13 fractional bits of terms and of sums, Hopper all") {
  using enum TensorCoreSums;
  // 2^-13 of the largest term stays in a step of 16 products, 2^-14 does not, even twice.
  CHECK(sum_of_e4m3(kAmpere, 0, {{0, 256, 1}, {1, 0x1p-5F, 1}}) == 256 + 0x1p-5F);
  CHECK(sum_of_e4m3(kAmpere, 0, {{0, 256, 1}, {1, 0x1p-6F, 1}, {2, 0x1p-6F, 1}}) == 256);
  CHECK(sum_of_e4m3(kHopper, 0, {{0, 256, 1}, {1, 0x1p-6F, 1}, {2, 0x1p-6F, 1}}) == 256 + 0x1p-5F);
  // 2^-14 twice in a step of their own: their sum is cut beside that of the step before.
  CHECK(sum_of_e4m3(kAmpere, 0, {{0, 0x1p-6F, 1}, {1, 0x1p-6F, 1}, {16, 256, 1}}) == 256 + 0x1p-5F);
  CHECK(sum_of_e4m3(kAmpere, 0, {{15, 256, 1}, {16, 0x1p-6F, 1}, {17, 0x1p-6F, 1}}) == 256);
  // A sum of 14 bits and more loses those below 13 after its leading one, towards zero.
  CHECK(sum_of_e4m3(kAmpere, 0, {{0, 256, 1}, {1, 256, 1}, {2, 0x1p-5F, 1}}) == 512);
  CHECK(sum_of_e4m3(kAmpere, 0, {{0, -256, 1}, {1, -256, 1}, {2, -0x1p-5F, 1}}) == -512);
  CHECK(sum_of_e4m3(kHopper, 0, {{0, 256, 1}, {1, 256, 1}, {2, 0x1p-5F, 1}}) == 512 + 0x1p-5F);
  // c, too, is cut to 13 bits.
  CHECK(sum_of_e4m3(kAmpere, 1 + 0x1p-14F, {}) == 1);
  CHECK(sum_of_e4m3(kHopper, 1 + 0x1p-14F, {}) == 1 + 0x1p-14F);
  for (const TensorCoreSums sums : kAll) {
    CHECK(sum_of_e4m3(sums, 0, {{31, 448, 448}}) == 448.0F * 448);
    CHECK(sum_of_e4m3(sums, 0, {{31, 0x1p-9F, -0x1p-9F}}) == -0x1p-18F);  // subnormal factors
    CHECK(sum_of_e4m3(sums, 2, {{0, 1.75F, 3}, {20, -3.5F, 2}}) == 0.25F);
    CHECK(std::isnan(sum_of_e4m3(sums, 0, {{0, NAN, 1}})));
  }
}

TEST_CASE("numbers are rounded to the nearest e4m3, of two the even one, and beyond 448 to it") {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    if (caption::is_nan_e4m3(byte)) {
      CHECK(std::isnan(from_e4m3(byte)));
      continue;
    }
    CHECK(to_e4m3(from_e4m3(byte)) == byte);
    if ((byte & 0x7F) == 0x7E) continue;
    // Between the number and the next of the same sign.
    const double low = from_e4m3(byte);
    const double high = from_e4m3(static_cast<std::uint8_t>(byte + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    CHECK(to_e4m3(middle) == (byte % 2 == 0 ? byte : byte + 1));
    CHECK(to_e4m3(std::nextafter(middle, static_cast<float>(low))) == byte);
    CHECK(to_e4m3(std::nextafter(middle, static_cast<float>(high))) == byte + 1);
  }
  CHECK(from_e4m3(0x7E) == 448);
  CHECK(from_e4m3(0x01) == 0x1p-9F);
  CHECK(to_e4m3(449) == 0x7E);
  CHECK(to_e4m3(-std::numeric_limits<float>::infinity()) == 0xFE);
  CHECK(to_e4m3(0x1p-11F) == 0);
  CHECK(to_e4m3(-0x1p-140F) == 0x80);
  CHECK(to_e4m3(NAN) == 0x7F);
}

TEST_SUITE_END();
