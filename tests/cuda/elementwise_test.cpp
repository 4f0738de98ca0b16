#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/activation.h"
#include "kernels/rows.h"
#include "kernels/swiglu.h"
#include "tests/cuda/testing.h"

using caption::DType;
using caption::Shape;
using caption::Stream;
using caption::Tensor;
using namespace caption::testing;
namespace kernels = caption::kernels;

namespace {

// Columns: below and beyond a block's 256 and 1,024 numbers, multiples of 4 and others. A stride of
// 0 is dense; 2,052 is a multiple of 4 and 2,051 is not.
struct Case {
  std::int64_t rows, columns, stride;
};
constexpr Case kCases[] = {{1, 1, 0},       {3, 7, 0},       {2, 260, 0},
                           {5, 1028, 2052}, {2, 1028, 2051}, {3, 1031, 0}};

// Numbers around 0, and some whose exponential is 0, subnormal or infinite.
Tensor wide_numbers(const Shape& shape, std::uint32_t seed) {
  Tensor x = random_f32(shape, seed);
  constexpr float kFactors[] = {1, 10, 88, 103, 200};
  for (std::int64_t i = 0; i < x.num_elements(); ++i) x.as<float>()[i] *= kFactors[i % 5];
  return x;
}

// x / (1 + e^-x) is off by a few roundings; where e^-x is nearly the largest float, by the smallest
// number times |x|.
double silu_tolerance(double x, double y) {
  return 8 * kUnit * std::abs(y) + std::abs(x) * 0x1p-125;
}

double silu_of(double x) { return x / (1 + std::exp(-x)); }

}  // namespace

TEST_SUITE_BEGIN("cuda/elementwise");

TEST_CASE("swiglu agrees with a double-precision loop") {
  for (const Case& c : kCases) {
    CAPTURE(c.columns);
    CAPTURE(c.stride);
    const Shape shape{c.rows, c.columns};
    const Tensor gate = wide_numbers(shape, 1);
    const Tensor up = random_f32(shape, 2);
    const std::vector<double> gates = values(gate);
    const std::vector<double> ups = values(up);
    std::vector<double> want;
    std::vector<double> tolerance;
    for (std::size_t i = 0; i < gates.size(); ++i) {
      want.push_back(silu_of(gates[i]) * ups[i]);
      tolerance.push_back(silu_tolerance(gates[i], want.back()));
    }
    const DeviceTensor device_gate(gate, c.stride);
    const DeviceTensor device_up(up);
    for (const std::uint64_t seed : kSeeds) {
      const DeviceTensor y(DType::kF32, shape, c.stride);
      const DeviceTensor narrow(DType::kF16, shape);
      run_emulated(seed, [&](Stream& stream) {
        kernels::swiglu(stream, device_gate.view(), device_up.view(), y.view());
        kernels::swiglu(stream, device_gate.view(), device_up.view(), narrow.view());
        kernels::swiglu(stream, device_gate.view(), device_up.view(), device_up.view());
      });
      const Tensor got = y.to_host();
      check_close(got.as<float>(), want, tolerance);
      check_rounded(narrow.to_host(), got);
      CHECK(same_bits(device_up.to_host(), got));  // up may be y
      caption::cuda_emulator::copy_to_device(static_cast<std::byte*>(device_up.view().raw()),
                                             up.view().raw(), up.size_bytes());
    }
  }
}

TEST_CASE("silu, add_silu and sigmoid_scale agree with double-precision loops") {
  for (const Case& c : kCases) {
    CAPTURE(c.columns);
    const Shape shape{c.rows, c.columns};
    const Tensor x = wide_numbers(shape, 3);
    const Tensor residual = random_f32(shape, 4);
    const DeviceTensor device_x(x);
    const DeviceTensor device_residual(residual);
    const DeviceTensor plain(DType::kF32, shape);
    const DeviceTensor added(DType::kF32, shape);
    run_emulated(1, [&](Stream& stream) {
      kernels::silu(stream, device_x.view(), plain.view());
      kernels::add_silu(stream, device_x.view(), device_residual.view(), added.view());
    });
    std::vector<double> want[2];
    std::vector<double> tolerance[2];
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      const float sum = x.as<float>()[i] + residual.as<float>()[i];
      int k = 0;
      for (const double from : {static_cast<double>(x.as<float>()[i]), static_cast<double>(sum)}) {
        want[k].push_back(silu_of(from));
        tolerance[k].push_back(silu_tolerance(from, want[k].back()));
        ++k;
      }
    }
    check_close(plain.to_host().as<float>(), want[0], tolerance[0]);
    check_close(added.to_host().as<float>(), want[1], tolerance[1]);
  }
}

TEST_CASE("sigmoid_scale weights the channels of each frame by its gate") {
  for (const std::int64_t channels : {3, 8, 1030}) {
    constexpr std::int64_t kFrames = 3;
    constexpr std::int64_t kPlaces = 5;
    const Tensor x = random_f32({kFrames, kPlaces, channels}, 5);
    const Tensor gate = wide_numbers({kFrames, channels}, 6);
    const DeviceTensor device_x(x);
    const DeviceTensor device_gate(gate);
    run_emulated(2, [&](Stream& stream) {
      kernels::sigmoid_scale(stream, device_x.view(), device_gate.view(), device_x.view());
    });
    std::vector<double> want;
    std::vector<double> tolerance;
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      const double g =
          static_cast<double>(gate.as<float>()[i / (kPlaces * channels) * channels + i % channels]);
      want.push_back(static_cast<double>(x.as<float>()[i]) / (1 + std::exp(-g)));
      tolerance.push_back(8 * kUnit * std::abs(want.back()) + 0x1p-125);
    }
    check_close(device_x.to_host().as<float>(), want, tolerance);
  }
}

TEST_CASE("a row of a block's 1,024 numbers takes one block, and one with more two") {
  for (const std::int64_t columns : {1024, 1028}) {
    const DeviceTensor x(random_f32({3, columns}, 13));
    const auto report =
        run_emulated(0, [&](Stream& stream) { kernels::silu(stream, x.view(), x.view()); });
    CHECK(report.blocks == (columns == 1024 ? 3 : 6));
  }
}

TEST_CASE("operands may begin at any element, whatever the others do") {
  constexpr std::int64_t kColumns = 512;
  const Tensor x = random_f32({1, kColumns}, 11);
  const Tensor other = random_f32({1, kColumns}, 12);
  Tensor silu(DType::kF32, x.shape());
  Tensor scaled(DType::kF32, x.shape());
  for (const int offset_of : {-1, 0, 1, 2}) {  // which operand is one element off; none at first
    CAPTURE(offset_of);
    const Tensor* const from[] = {&x, &other, nullptr};
    caption::View views[3];
    std::vector<std::unique_ptr<DeviceTensor>> memory;
    for (int i = 0; i < 3; ++i) {
      memory.push_back(std::make_unique<DeviceTensor>(DType::kF32, Shape{1, kColumns + 1}));
      auto* const begin = static_cast<float*>(memory.back()->view().raw()) + (i == offset_of);
      views[i] = caption::View(begin, DType::kF32, x.shape(), caption::Device::kCuda);
      if (from[i] == nullptr) continue;
      caption::cuda_emulator::copy_to_device(reinterpret_cast<std::byte*>(begin),
                                             from[i]->view().raw(), from[i]->size_bytes());
    }
    Tensor got[2] = {Tensor(DType::kF32, x.shape()), Tensor(DType::kF32, x.shape())};
    run_emulated(1, [&](Stream& stream) {
      const auto* const y = static_cast<const std::byte*>(views[2].raw());
      kernels::add_silu(stream, views[0], views[1], views[2]);
      stream.synchronize();
      caption::cuda_emulator::copy_from_device(got[0].as<float>(), y, got[0].size_bytes());
      kernels::sigmoid_scale(stream, views[0].reshape({1, 1, kColumns}), views[1],
                             views[2].reshape({1, 1, kColumns}));
      stream.synchronize();
      caption::cuda_emulator::copy_from_device(got[1].as<float>(), y, got[1].size_bytes());
    });
    if (offset_of < 0) {
      silu = std::move(got[0]);
      scaled = std::move(got[1]);
      continue;
    }
    CHECK(same_bits(got[0], silu));
    CHECK(same_bits(got[1], scaled));
  }
}

TEST_CASE("rows are gathered, scattered and added as on the CPU, bit for bit") {
  const Tensor rows = indices({6, 0, 3, 5});
  const DeviceTensor device_rows(rows);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
    for (const Case& c : kCases) {
      CAPTURE(c.columns);
      CAPTURE(c.stride);
      const auto make = [&](std::int64_t n, std::uint32_t seed) {
        return dtype == DType::kI8 ? random_i8({n, c.columns}, seed)
                                   : random_of(dtype, {n, c.columns}, seed);
      };
      const Tensor many = make(7, 7);
      const Tensor few = make(4, 8);
      Tensor gathered(dtype, few.shape());
      Tensor scattered = many.clone();
      run_on_cpu([&](Stream& stream) {
        kernels::gather_rows(stream, many.view(), rows.view(), gathered.view());
        kernels::scatter_rows(stream, few.view(), rows.view(), scattered.view());
      });
      const DeviceTensor device_many(many, c.stride);
      const DeviceTensor device_few(few, c.stride);
      const DeviceTensor y(dtype, few.shape());
      run_emulated(1, [&](Stream& stream) {
        kernels::gather_rows(stream, device_many.view(), device_rows.view(), y.view());
        kernels::scatter_rows(stream, device_few.view(), device_rows.view(), device_many.view());
      });
      CHECK(same_bits(y.to_host(), gathered));
      CHECK(same_bits(device_many.to_host(), scattered));
      if (dtype != DType::kF32) continue;
      Tensor added = many.clone();
      run_on_cpu([&](Stream& stream) {
        kernels::add_rows(stream, few.view(), rows.view(), added.view());
      });
      const DeviceTensor device_added(many, c.stride);
      const DeviceTensor dense_few(few);
      run_emulated(2, [&](Stream& stream) {
        kernels::add_rows(stream, dense_few.view(), device_rows.view(), device_added.view());
      });
      CHECK(same_bits(device_added.to_host(), added));
    }
  }
}

TEST_CASE("aligned matrices move no byte twice over, and 16 at a time") {
  const DeviceTensor x(random_f32({3, 1536}, 9));
  const DeviceTensor y(DType::kF32, {3, 1536});
  const DeviceTensor rows(indices({2, 0, 1}));
  const DeviceTensor narrow(random_of(DType::kBF16, {3, 1032}, 10));  // 8 numbers at a time, not 16
  const DeviceTensor narrow_y(DType::kBF16, {3, 1032});
  check_wastes_nothing(
      [&](Stream& stream) {
        kernels::swiglu(stream, x.view(), x.view(), y.view());
        kernels::silu(stream, x.view(), y.view());
        kernels::add_silu(stream, x.view(), x.view(), y.view());
        kernels::gather_rows(stream, x.view(), rows.view(), y.view());
        kernels::gather_rows(stream, narrow.view(), rows.view(), narrow_y.view());
        kernels::add_rows(stream, x.view(), rows.view(), y.view());
        kernels::sigmoid_scale(stream, x.view().reshape({1, 3, 1536}), x.view().rows(0, 1),
                               y.view().reshape({1, 3, 1536}));
      },
      16);
}

TEST_SUITE_END();
