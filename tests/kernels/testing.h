// tests/kernels/testing.h: operands, tolerances and tiers for the kernel tests.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu_tier.h"
#include "backend/stream.h"
#include "kernels/convert.h"
#include "kernels/cpu/select_tier.h"
#include "tensor/tensor.h"
#include "tests/support/tested_tiers.h"

namespace caption::testing {

// Half a unit in the last place of 1: the relative error of one binary32 rounding.
inline constexpr double kUnit = 0x1p-24;

// Calls work(stream) for each tier that this machine runs or emulates, with 1 and 3 threads.
template <class Work>
void for_each_stream(Work work) {
  for (const CpuTier tier : TestedTiers()) {
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      Stream stream(pool, tier);
      INFO("tier ", std::string(cpu_tier_name(tier)), ", threads ", threads);
      work(stream);
    }
  }
}

// Uniform numbers in [-1, 1), the same in every run.
inline Tensor random_f32(const Shape& shape, std::uint32_t seed) {
  Tensor tensor(DType::kF32, shape);
  std::mt19937 generator(seed);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.as<float>()[i] = static_cast<float>(generator() >> 8) * 0x1p-23F - 1.0F;
  }
  return tensor;
}

inline Tensor converted(const Tensor& from, DType dtype) {
  ThreadPool pool(1);
  Stream stream(pool, CpuTier::kReference);
  Tensor to(dtype, from.shape());
  kernels::convert(stream, from.view(), to.view());
  return to;
}

inline Tensor random_of(DType dtype, const Shape& shape, std::uint32_t seed) {
  return converted(random_f32(shape, seed), dtype);
}

// Element-wise functions of the stream's tier on dense f32.
inline void gelu_erf(Stream& stream, ConstView x, View y) {
  kernels::cpu::select_tier(stream.cpu_tier()).gelu(x.as<float>(), y.as<float>(), y.num_elements());
}
inline void gelu_tanh(Stream& stream, ConstView x, View y) {
  kernels::cpu::select_tier(stream.cpu_tier())
      .gelu_tanh(x.as<float>(), y.as<float>(), y.num_elements());
}
inline void quick_gelu(Stream& stream, ConstView x, View y) {
  kernels::cpu::select_tier(stream.cpu_tier())
      .swish({.x = x.as<float>(),
              .beta = 1.702F,
              .factor = nullptr,
              .y = y.as<float>(),
              .n = y.num_elements()});
}

// Uniform integers in [-127, 127].
inline Tensor random_i8(const Shape& shape, std::uint32_t seed) {
  Tensor tensor(DType::kI8, shape);
  std::mt19937 generator(seed);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.as<std::int8_t>()[i] =
        static_cast<std::int8_t>(static_cast<int>(generator() % 255) - 127);
  }
  return tensor;
}

// Returns the stored values, widened.
inline std::vector<double> values(const Tensor& tensor) {
  if (tensor.dtype() == DType::kI8) {
    return {tensor.as<std::int8_t>(), tensor.as<std::int8_t>() + tensor.num_elements()};
  }
  const Tensor wide = converted(tensor, DType::kF32);
  return {wide.as<float>(), wide.as<float>() + wide.num_elements()};
}

inline Tensor indices(const std::vector<std::int32_t>& values) {
  Tensor tensor(DType::kI32, {static_cast<std::int64_t>(values.size())});
  if (!values.empty()) std::memcpy(tensor.as<std::int32_t>(), values.data(), 4 * values.size());
  return tensor;
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.empty() || std::memcmp(a.view().raw(), b.view().raw(), a.size_bytes()) == 0);
}

// Checks |got[i] - want[i]| <= tolerance[i] for all i; a failure reports the worst index.
inline void check_close(const float* got, const std::vector<double>& want,
                        const std::vector<double>& tolerance) {
  std::size_t worst = 0;
  double worst_share = -1;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - want[i]);
    // A NaN counts as the largest error; an exact result passes with a tolerance of 0.
    const double share = error == 0 ? 0 : (error <= tolerance[i] ? error / tolerance[i] : 1e9);
    if (share > worst_share) {
      worst_share = share;
      worst = i;
    }
  }
  if (want.empty()) return;
  INFO("worst at ", worst, ": got ", got[worst], ", want ", want[worst], ", tolerance ",
       tolerance[worst]);
  CHECK(worst_share <= 1);
}

}  // namespace caption::testing
