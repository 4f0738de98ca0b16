#include "kernels/norm.h"

#include <cmath>
#include <vector>

#include "tests/cuda/testing.h"

using caption::DType;
using caption::Stream;
using caption::Tensor;
using caption::kernels::layer_norm;
using caption::kernels::rms_norm;
using namespace caption::testing;

namespace {

constexpr float kEps = 1e-5F;

// The shapes of tests/kernels/norm_test.cpp, and one whose width is a multiple of four, but not its
// stride.
struct Case {
  std::int64_t rows, dim;
  DType weight;
  std::int64_t stride = 0;
};
constexpr Case kCases[] = {
    {1, 1, DType::kF32},     {3, 7, DType::kBF16},        {2, 17, DType::kF16},
    {5, 128, DType::kF32},   {9, 1024, DType::kBF16},     {1, 4096, DType::kF16},
    {13, 1025, DType::kF32}, {3, 516, DType::kBF16, 517}, {3, 516, DType::kF16, 520}};

constexpr DType kOutputs[] = {DType::kF32, DType::kBF16, DType::kF16};

// The CPU's sums are off by at most dim / 16 + 5 roundings of the mean magnitude, those of 128
// threads by dim / 128 + 4 (the numbers of a thread) + 5 (lanes) + 4 (warps); a root halves
// relative errors; a few roundings follow.
double sum_roundings(std::int64_t dim) {
  return static_cast<double>(dim) / 16 + static_cast<double>(dim) / 128 + 32;
}

Tensor shifted(const caption::Shape& shape, std::uint32_t seed, float shift) {
  Tensor x = random_f32(shape, seed);
  for (std::int64_t i = 0; i < x.num_elements(); ++i) x.as<float>()[i] += shift;
  return x;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/norm");

TEST_CASE("rms_norm agrees with the CPU's") {
  for (const Case& c : kCases) {
    CAPTURE(c.rows);
    CAPTURE(c.dim);
    CAPTURE(c.stride);
    const Tensor x = random_f32({c.rows, c.dim}, 1);
    const Tensor weight = random_of(c.weight, {c.dim}, 2);
    Tensor want(DType::kF32, x.shape());
    run_on_cpu(
        [&](Stream& stream) { rms_norm(stream, x.view(), weight.view(), kEps, want.view()); });
    const DeviceTensor device_x(x, c.stride);
    const DeviceTensor device_weight(weight);
    for (const std::uint64_t seed : kSeeds) {
      const DeviceTensor y(DType::kF32, x.shape(), c.stride);
      run_emulated(seed, [&](Stream& stream) {
        rms_norm(stream, device_x.view(), device_weight.view(), kEps, y.view());
      });
      const Tensor got = y.to_host();
      check_close(got.as<float>(), values(want), tolerances(want, [&](std::int64_t i) {
                    return sum_roundings(c.dim) * kUnit *
                           std::abs(static_cast<double>(want.as<float>()[i]));
                  }));
      for (const DType dtype : kOutputs) {
        const DeviceTensor narrow(dtype, x.shape(), c.stride);
        run_emulated(seed, [&](Stream& stream) {
          rms_norm(stream, device_x.view(), device_weight.view(), kEps, narrow.view());
        });
        check_rounded(narrow.to_host(), got);
      }
    }
  }
}

TEST_CASE("layer_norm agrees with the CPU's, far from zero too") {
  for (const Case& c : kCases) {
    for (const float shift : {0.0F, 30.0F}) {
      CAPTURE(c.rows);
      CAPTURE(c.dim);
      CAPTURE(c.stride);
      CAPTURE(shift);
      const Tensor x = shifted({c.rows, c.dim}, 3, shift);
      const Tensor weight = random_of(c.weight, {c.dim}, 4);
      const Tensor bias = random_of(DType::kF16, {c.dim}, 5);
      Tensor want(DType::kF32, x.shape());
      run_on_cpu([&](Stream& stream) {
        layer_norm(stream, x.view(), weight.view(), bias.view(), kEps, want.view());
      });
      const std::vector<double> ws = values(weight);
      const std::vector<double> bs = values(bias);
      const std::vector<double> xs = values(x);
      const DeviceTensor device_x(x, c.stride);
      const DeviceTensor device_weight(weight);
      const DeviceTensor device_bias(bias);
      for (const std::uint64_t seed : kSeeds) {
        const DeviceTensor y(DType::kF32, x.shape());
        run_emulated(seed, [&](Stream& stream) {
          layer_norm(stream, device_x.view(), device_weight.view(), device_bias.view(), kEps,
                     y.view());
        });
        const Tensor got = y.to_host();
        check_close(got.as<float>(), values(want), tolerances(want, [&](std::int64_t i) {
                      const auto row = static_cast<std::size_t>(i / c.dim * c.dim);
                      const auto column = static_cast<std::size_t>(i % c.dim);
                      double mean = 0;
                      double variance = 0;
                      for (std::int64_t k = 0; k < c.dim; ++k) mean += xs[row + k];
                      mean /= static_cast<double>(c.dim);
                      for (std::int64_t k = 0; k < c.dim; ++k)
                        variance += std::pow(xs[row + k] - mean, 2);
                      variance /= static_cast<double>(c.dim);
                      const double factor = 1 / std::sqrt(variance + static_cast<double>(kEps));
                      // The mean's error is relative to |x| <= 1 + shift and is multiplied by the
                      // factor.
                      const double scale =
                          (1.0 + static_cast<double>(shift)) * factor * std::abs(ws[column]);
                      return sum_roundings(c.dim) * kUnit *
                             (scale + std::abs(static_cast<double>(want.as<float>()[i])) +
                              std::abs(bs[column]));
                    }));
      }
    }
  }
}

TEST_CASE("heads of a strided matrix, in place, give the bits of dense rows alone") {
  constexpr std::int64_t kHeads = 3;
  for (const std::int64_t head_dim : {24, 25}) {
    const Tensor x = random_f32({5, kHeads, head_dim}, 6);
    const Tensor weight = random_of(DType::kBF16, {head_dim}, 7);
    const DeviceTensor device_weight(weight);
    const DeviceTensor in_place(x, 2 * kHeads * head_dim);
    run_emulated(1, [&](Stream& stream) {
      rms_norm(stream, in_place.view(), device_weight.view(), kEps, in_place.view());
    });
    const Tensor got = in_place.to_host();
    int different = 0;
    for (std::int64_t r = 0; r < 5 * kHeads; ++r) {
      Tensor row(DType::kF32, {1, head_dim});
      std::memcpy(row.as<float>(), x.as<float>() + r * head_dim, row.size_bytes());
      const DeviceTensor alone(row);
      run_emulated(2, [&](Stream& stream) {
        rms_norm(stream, alone.view(), device_weight.view(), kEps, alone.view());
      });
      different += std::memcmp(alone.to_host().as<float>(), got.as<float>() + r * head_dim,
                               row.size_bytes()) != 0;
    }
    CHECK(different == 0);
  }
}

TEST_CASE("a norm of aligned rows moves no byte twice over, and four numbers at a time") {
  const DeviceTensor x(random_f32({3, 1024}, 8));
  const DeviceTensor weight(random_of(DType::kBF16, {1024}, 9));
  const DeviceTensor y(DType::kBF16, {3, 1024});
  check_wastes_nothing(
      [&](Stream& stream) {
        rms_norm(stream, x.view(), weight.view(), kEps, y.view());
        layer_norm(stream, x.view(), weight.view(), weight.view(), kEps, y.view());
      },
      8);
}

TEST_CASE("no rows are no launch") {
  const caption::cuda_emulator::Emulation emulation;
  caption::ThreadPool pool(1);
  Stream stream(caption::Context{.device = caption::Device::kCuda}, pool);
  const DeviceTensor x(DType::kF32, {0, 8});
  const DeviceTensor weight(random_f32({8}, 1));
  rms_norm(stream, x.view(), weight.view(), kEps, x.view());
  CHECK(emulation.report().launches == 0);
}

TEST_SUITE_END();
