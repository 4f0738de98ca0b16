#include "tests/gpu/mma_check.h"

#include <bit>
#include <cstring>
#include <utility>

#include "tensor/copy.h"
#include "tensor/tensor.h"
#include "tests/gpu/mma_products.h"
#include "tests/gpu/operands.h"
#include "tests/support/cuda/tensor_core.h"

namespace caption::testing {
namespace {

using cuda_emulator::HalfType;
using cuda_emulator::MatrixA;
using cuda_emulator::MatrixB;
using cuda_emulator::MatrixC;
using cuda_emulator::TensorCoreSums;

struct Product {
  MatrixA a;
  MatrixB b;
  MatrixC c;
};

// Bits of a finite number with an exponent of at most `spread` below the middle of its type's.
std::uint16_t half_of(bool is_f16, std::uint32_t bits, std::uint32_t spread) {
  const std::uint32_t below = (bits >> 16U) % (spread + 1);
  const std::uint32_t sign = bits >> 31U << 15U;
  if (is_f16) return static_cast<std::uint16_t>(sign | (15 - below % 15) << 10U | (bits & 0x3FFU));
  return static_cast<std::uint16_t>(sign | (127 - below) << 7U | (bits & 0x7FU));
}

Product random_product(bool is_f16, std::int64_t index) {
  std::uint64_t drawn = 0;
  const auto seed = static_cast<std::uint32_t>(index);
  const auto next = [&] { return mixed(seed, drawn++); };
  constexpr std::uint32_t kSpreads[] = {0, 2, 6, 14};
  const std::uint32_t spread = kSpreads[next() % 4];
  Product product;
  for (auto& row : product.a.element) {
    for (std::uint16_t& x : row) x = half_of(is_f16, next(), spread);
  }
  for (auto& row : product.b.element) {
    for (std::uint16_t& x : row) x = half_of(is_f16, next(), spread);
  }
  // Sums between 2^-24 and 2^8, zero in an eighth of the products.
  const bool is_zero = next() % 8 == 0;
  for (auto& row : product.c.element) {
    for (float& x : row) {
      const std::uint32_t bits = next();
      const std::uint32_t exponent = 103 + next() % 33;
      x = is_zero ? 0 : std::bit_cast<float>((bits & 0x807FFFFFU) | exponent << 23U);
    }
  }
  return product;
}

std::uint32_t pair_of(std::uint16_t low, std::uint16_t high) {
  return low | static_cast<std::uint32_t>(high) << 16U;
}

// kernels/cuda/primitives.cuh, FragmentA, FragmentB and FragmentC.
LaneOperands fragments_of(const Product& product, int lane) {
  const int g = lane / 4;
  const int t = lane % 4;
  LaneOperands of_lane;
  for (int i = 0; i < 4; ++i) {
    const std::uint16_t* const row = product.a.element[g + 8 * (i % 2)];
    const int column = 2 * t + 8 * (i / 2);
    of_lane.a[i] = pair_of(row[column], row[column + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    const int row = 2 * t + 8 * i;
    of_lane.b[i] = pair_of(product.b.element[row][g], product.b.element[row + 1][g]);
  }
  for (int i = 0; i < 4; ++i) {
    of_lane.c[i] = product.c.element[g + 8 * (i / 2)][2 * t + i % 2];
  }
  return of_lane;
}

MatrixC sums_of(const LaneOperands* lanes) {
  MatrixC c;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      c.element[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2] = lanes[lane].c[i];
    }
  }
  return c;
}

MatrixC model_of(TensorCoreSums sums, bool is_f16, const Product& product) {
  MatrixC c = product.c;
  multiply_add(sums, is_f16 ? HalfType::kF16 : HalfType::kBF16, product.a, product.b, c);
  return c;
}

bool is_equal(const MatrixC& x, const MatrixC& y) { return std::memcmp(&x, &y, sizeof x) == 0; }

MmaDifference describe(std::int64_t index, const Product& product, const MatrixC& expected,
                       const MatrixC& found) {
  int at = 0;
  const auto bits = [](const MatrixC& c, int i) {
    return std::bit_cast<std::uint32_t>(c.element[i / 8][i % 8]);
  };
  while (bits(expected, at) == bits(found, at)) ++at;
  MmaDifference difference{.product = index, .row = at / 8, .column = at % 8};
  for (int k = 0; k < 16; ++k) {
    difference.a.push_back(product.a.element[at / 8][k]);
    difference.b.push_back(product.b.element[k][at % 8]);
  }
  difference.c = bits(product.c, at);
  difference.expected = bits(expected, at);
  difference.found = bits(found, at);
  return difference;
}

}  // namespace

MmaCheck check_mma(Stream& stream, bool is_f16, std::int64_t count) {
  constexpr std::int64_t kLaneBytes = sizeof(LaneOperands);
  Tensor host(DType::kI8, {count * 32, kLaneBytes});
  auto* const lanes = static_cast<LaneOperands*>(host.view().raw());
  for (std::int64_t i = 0; i < count; ++i) {
    const Product product = random_product(is_f16, i);
    for (int lane = 0; lane < 32; ++lane) lanes[i * 32 + lane] = fragments_of(product, lane);
  }
  Tensor on_gpu = to_device(stream, host);
  multiply_fragments(stream, static_cast<LaneOperands*>(on_gpu.view().raw()), count, is_f16);
  const Tensor results = to_host(stream, on_gpu);
  const auto* const found = static_cast<const LaneOperands*>(results.view().raw());

  const bool is_hopper = stream.context().compute_capability >= 90;
  MmaCheck check{.type = is_f16 ? "f16" : "bf16", .model = is_hopper ? "hopper" : "ampere"};
  check.products = count;
  for (std::int64_t i = 0; i < count; ++i) {
    const Product product = random_product(is_f16, i);
    const MatrixC sums = sums_of(found + i * 32);
    const MatrixC ampere = model_of(TensorCoreSums::kAmpere, is_f16, product);
    const MatrixC hopper = model_of(TensorCoreSums::kHopper, is_f16, product);
    check.equal_ampere += is_equal(sums, ampere) ? 1 : 0;
    check.equal_hopper += is_equal(sums, hopper) ? 1 : 0;
    check.equal_fused += is_equal(sums, model_of(TensorCoreSums::kFused, is_f16, product)) ? 1 : 0;
    const MatrixC& expected = is_hopper ? hopper : ampere;
    if (!check.first.has_value() && !is_equal(sums, expected)) {
      check.first = describe(i, product, expected, sums);
    }
  }
  check.equal = is_hopper ? check.equal_hopper : check.equal_ampere;
  return check;
}

}  // namespace caption::testing
