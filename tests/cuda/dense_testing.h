// tests/cuda/dense_testing.h: weights on the emulated GPU, and what a dense layer has to compute.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/dense_layer.h"
#include "kernels/cuda/weight_forms.h"
#include "kernels/linear.h"
#include "tests/cuda/testing.h"

namespace caption::testing {

// A weight in emulated memory: rows as they are, or tiles of the dtype of `rows`.
class DeviceWeight {
 public:
  DeviceWeight(const Tensor& rows, kernels::cuda::Layout layout)
      : rows_(rows, rows.dim(1) + 3), layout_(layout) {
    namespace cuda = kernels::cuda;
    const std::int64_t n = rows.dim(0);
    const std::int64_t k = rows.dim(1);
    std::unique_ptr<const kernels::WeightForm> form;
    if (layout == cuda::Layout::kRows) {
      form = kernels::impl::borrow_rows(Cuda{}, rows_.view());
    } else {
      tiles_ = std::make_unique<DeviceTensor>(
          DType::kU8, Shape{static_cast<std::int64_t>(cuda::tiles_bytes(n, k))});
      run_emulated(1, [&](Stream& stream) {
        form = std::make_unique<const cuda::TilesForm>(
            cuda::pack_tiles(stream, rows_.view(), rows.dtype(), tiles_->view().raw()));
      });
    }
    weight_ = kernels::Weight(n, k, Device::kCuda, std::move(form));
  }

  const kernels::Weight& get() const { return weight_; }
  kernels::cuda::Layout layout() const { return layout_; }

 private:
  DeviceTensor rows_;
  kernels::cuda::Layout layout_;
  std::unique_ptr<DeviceTensor> tiles_;
  kernels::Weight weight_;
};

// Sums of products in double precision, and bounds of the kernels' errors.
struct ExpectedSums {
  std::vector<double> sum;
  std::vector<double> tolerance;
};

// Tiles: a step of 8 or 16 products cuts up to 17 terms by 2^-24 of the greatest, and its sum by
// 2^-23; there are columns / 8 steps, and a rounding per slice. Rows, and tensor cores whose sums
// are fused: a rounding per column.
inline ExpectedSums expected_sums(const Tensor& x, const Tensor& rows,
                                  kernels::cuda::Layout layout) {
  const bool is_tiles = layout == kernels::cuda::Layout::kTiles;
  const std::vector<double> xs =
      values(is_tiles ? converted(x, rows.dtype()) : converted(x, DType::kF32));
  const std::vector<double> ws = values(rows);
  const std::int64_t columns = rows.dim(1);
  const auto steps = static_cast<double>((columns + 7) / 8);
  const double roundings = is_tiles ? steps * (17 + 2) + 4 : static_cast<double>(columns);
  ExpectedSums expected;
  for (std::int64_t m = 0; m < x.dim(0); ++m) {
    for (std::int64_t n = 0; n < rows.dim(0); ++n) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t k = 0; k < columns; ++k) {
        const double term = xs[m * columns + k] * ws[n * columns + k];
        sum += term;
        magnitude += std::abs(term);
      }
      expected.sum.push_back(sum);
      expected.tolerance.push_back(roundings * kUnit * magnitude);
    }
  }
  return expected;
}

// Calls work(stream) on the emulated GPU with these options, and checks that no fault is found.
template <class Work>
void run_with(const cuda_emulator::Options& options, const Context& gpu, Work work) {
  const cuda_emulator::Emulation emulation(options);
  ThreadPool pool(1);
  Stream stream(gpu, pool);
  work(stream);
  stream.synchronize();
  CHECK(emulation.report().describe_faults() == "");
}
template <class Work>
void run_with(const cuda_emulator::Options& options, Work work) {
  run_with(options, Context{.device = Device::kCuda}, work);
}

// x * weight^T as f32, by kernels::linear().
inline Tensor product(const Tensor& x, const DeviceWeight& weight,
                      const cuda_emulator::Options& options, std::int64_t x_stride = 0,
                      int compute_capability = 0) {
  const std::int64_t features = weight.get().num_features();
  const DeviceTensor device_x(x, x_stride);
  const DeviceTensor y(DType::kF32, {x.dim(0), features}, features + 1);
  const Context gpu{.device = Device::kCuda, .compute_capability = compute_capability};
  run_with(options, gpu, [&](Stream& stream) {
    kernels::linear(stream, device_x.view(), weight.get(), ConstView{}, y.view());
  });
  return y.to_host();
}

inline Tensor first_rows(const Tensor& x, std::int64_t count) {
  Tensor some(x.dtype(), {count, x.dim(1)});
  std::memcpy(some.view().raw(), x.view().raw(), some.size_bytes());
  return some;
}

inline constexpr cuda_emulator::TensorCoreSums kArithmetics[] = {
    cuda_emulator::TensorCoreSums::kAmpere, cuda_emulator::TensorCoreSums::kHopper,
    cuda_emulator::TensorCoreSums::kFused};

// What dense layers of 21 rows compute by blocks of a kind: two parts in one launch, one of them
// with a bias, gate and up, and a part that is added. place(stream, i) places the i-th of three
// weights [75, 200], [18, 200] and [75, 200].
template <class Place>
std::vector<Tensor> multiply_parts(const cuda_emulator::Options& options, const Context& gpu,
                                   kernels::cuda::CodeBlocks blocks, const Place& place) {
  using kernels::LinearPart;
  const DeviceTensor x(random_f32({21, 200}, 5));
  const DeviceTensor bias(random_f32({75}, 6));
  const DeviceTensor ys[] = {{DType::kF32, {21, 75}},
                             {DType::kF32, {21, 18}},
                             {DType::kBF16, {21, 75}},
                             DeviceTensor(random_f32({21, 18}, 9))};
  run_with(options, gpu, [&](Stream& stream) {
    const kernels::Weight a = place(stream, 0);
    const kernels::Weight b = place(stream, 1);
    const kernels::Weight c = place(stream, 2);
    const LinearPart parts[] = {{a, bias.view(), ys[0].view()}, {b, {}, ys[1].view()}};
    kernels::cuda::multiply_codes(stream, {.x = x.view(), .parts = parts}, blocks);
    const LinearPart gate_and_up[] = {{a, {}, ys[2].view()}, {c, bias.view(), ys[2].view()}};
    kernels::cuda::multiply_codes(stream, {.x = x.view(), .parts = gate_and_up, .is_swiglu = true},
                                  blocks);
    const LinearPart added{b, {}, ys[3].view()};
    kernels::cuda::multiply_codes(
        stream, {.x = x.view(), .parts = {&added, 1}, .output = kernels::LinearOutput::kAdd},
        blocks);
  });
  std::vector<Tensor> results;
  for (const DeviceTensor& y : ys) results.push_back(y.to_host());
  return results;
}

}  // namespace caption::testing
