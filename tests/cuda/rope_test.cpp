#include "kernels/rope.h"

#include <cmath>
#include <vector>

#include "tests/cuda/testing.h"

using caption::DType;
using caption::Stream;
using caption::Tensor;
using caption::kernels::rope;
using caption::kernels::rope_table;
using namespace caption::testing;

namespace {

Tensor inverse_frequencies(std::int64_t head_dim, double theta) {
  Tensor tensor(DType::kF32, {head_dim / 2});
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    tensor.as<float>()[i] = static_cast<float>(
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  }
  return tensor;
}

struct Case {
  std::int64_t heads, head_dim;
  std::vector<std::int32_t> positions;
  std::int64_t stride = 0;
};

// The heads of the third are not a multiple of a block's 256 pairs.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {{1, 2, {0}},
                                        {3, 6, {5, 0, 5}, 20},
                                        {9, 128, {0, 1, 2, 1199, 8191}},
                                        {8, 64, {10239, 7, 2147483647, -3}}};
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/rope");

TEST_CASE("the table has the nearest cosines and sines, of every angle") {
  for (const Case& c : cases()) {
    CAPTURE(c.head_dim);
    const auto tokens = static_cast<std::int64_t>(c.positions.size());
    const std::int64_t half = c.head_dim / 2;
    const Tensor frequencies = inverse_frequencies(c.head_dim, 1e6);
    const DeviceTensor device_frequencies(frequencies);
    const DeviceTensor positions(indices(c.positions));
    for (const std::uint64_t seed : kSeeds) {
      const DeviceTensor table(DType::kF32, {tokens, c.head_dim});
      run_emulated(seed, [&](Stream& stream) {
        rope_table(stream, {.positions = positions.view(), .inv_freq = device_frequencies.view()},
                   table.view());
      });
      std::vector<double> want;
      std::vector<double> tolerance;
      for (std::int64_t i = 0; i < tokens * c.head_dim; ++i) {
        const std::int32_t position = c.positions[static_cast<std::size_t>(i / c.head_dim)];
        // The angle is f32 by definition.
        const double angle = static_cast<float>(position) * frequencies.as<float>()[i % half];
        want.push_back(i % c.head_dim < half ? std::cos(angle) : std::sin(angle));
        tolerance.push_back(kUnit * std::abs(want.back()) + 0x1p-38);
      }
      check_close(table.to_host().as<float>(), want, tolerance);
    }
  }
}

TEST_CASE("rotation in place agrees with the CPU's") {
  for (const Case& c : cases()) {
    CAPTURE(c.head_dim);
    const auto tokens = static_cast<std::int64_t>(c.positions.size());
    const std::int64_t half = c.head_dim / 2;
    const Tensor table = random_f32({tokens, c.head_dim}, 1);
    const Tensor x = random_f32({tokens, c.heads, c.head_dim}, 2);
    Tensor want = x.clone();
    run_on_cpu([&](Stream& stream) { rope(stream, table.view(), want.view()); });
    const DeviceTensor device_table(table);
    for (const std::uint64_t seed : kSeeds) {
      const DeviceTensor y(x, c.stride);
      run_emulated(seed, [&](Stream& stream) { rope(stream, device_table.view(), y.view()); });
      // Two products and a sum on either side, of numbers below 1.
      check_close(y.to_host().as<float>(), values(want), tolerances(want, [&](std::int64_t i) {
                    const std::int64_t low = i / c.head_dim * c.head_dim + i % half;
                    return 4 * kUnit *
                           (std::abs(static_cast<double>(x.as<float>()[low])) +
                            std::abs(static_cast<double>(x.as<float>()[low + half])));
                  }));
    }
  }
}

TEST_CASE("each frequency follows the position along its axis, and the factor scales the table") {
  constexpr std::int64_t kTokens = 5;
  const DeviceTensor frequencies(inverse_frequencies(12, 1e4));
  const std::vector<std::int32_t> positions = {0, 1,  2,      2, 2, /**/ 0, 1, 3,
                                               4, 90, /**/ 0, 1, 5, 6,      7};
  const std::vector<std::int32_t> axis = {0, 1, 2, 1, 2, 0};
  const DeviceTensor device_positions(indices(positions));
  const DeviceTensor device_axis(indices(axis));
  const DeviceTensor table(DType::kF32, {kTokens, 12});
  run_emulated(1, [&](Stream& stream) {
    rope_table(stream,
               {.positions = device_positions.view().reshape({3, kTokens}),
                .inv_freq = frequencies.view(),
                .axis = device_axis.view(),
                .scale = 1.25F},
               table.view());
  });
  const Tensor got = table.to_host();
  int different = 0;
  for (std::int64_t i = 0; i < 6; ++i) {
    const auto first = positions.begin() + axis[static_cast<std::size_t>(i)] * kTokens;
    const DeviceTensor along(indices(std::vector(first, first + kTokens)));
    const DeviceTensor along_table(DType::kF32, {kTokens, 12});
    run_emulated(0, [&](Stream& stream) {
      rope_table(stream, {.positions = along.view(), .inv_freq = frequencies.view()},
                 along_table.view());
    });
    const Tensor plain = along_table.to_host();
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const std::int64_t at = t * 12 + i;
      different += got.as<float>()[at] != 1.25F * plain.as<float>()[at];
      different += got.as<float>()[at + 6] != 1.25F * plain.as<float>()[at + 6];
    }
  }
  CHECK(different == 0);
}

TEST_CASE("aligned heads move no byte twice over") {
  const DeviceTensor table(random_f32({3, 128}, 1));
  const DeviceTensor x(random_f32({3, 8, 128}, 2));
  check_wastes_nothing([&](Stream& stream) { rope(stream, table.view(), x.view()); }, 4);
}

TEST_SUITE_END();
