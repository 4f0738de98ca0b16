// tests/cuda/testing.h: operands in emulated memory, and runs on the emulator.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "backend/context.h"
#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "tensor/tensor.h"
#include "tests/kernels/testing.h"
#include "tests/support/cuda/emulator.h"
#include "tests/support/cuda/queues.h"

namespace caption::testing {

// A matrix, or tensor, in emulated memory. Its rows may be strided; the memory ends with its last
// element.
class DeviceTensor {
 public:
  // Nobody has written the elements. A stride of 0 is that of a dense tensor.
  DeviceTensor(DType dtype, const Shape& shape, std::int64_t row_stride = 0)
      : dtype_(dtype), shape_(shape) {
    const std::int64_t rows = shape.rank() == 0 ? 1 : shape[0];
    const std::int64_t row = rows == 0 ? 0 : shape.num_elements() / rows;
    row_stride_ = row_stride == 0 ? row : row_stride;
    const std::int64_t elements = rows == 0 ? 0 : (rows - 1) * row_stride_ + row;
    begin_ = cuda_emulator::allocate(static_cast<std::size_t>(elements) * dtype_size_bytes(dtype));
  }
  explicit DeviceTensor(const Tensor& from, std::int64_t row_stride = 0)
      : DeviceTensor(from.dtype(), from.shape(), row_stride) {
    for_each_row([&](std::byte* row, std::size_t offset, std::size_t bytes) {
      const auto* const host = static_cast<const std::byte*>(from.view().raw());
      cuda_emulator::copy_to_device(row, host + offset, bytes);
    });
  }
  ~DeviceTensor() { cuda_emulator::free(begin_); }
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;

  View view() const { return View(begin_, dtype_, shape_, row_stride_, Device::kCuda); }
  // A dense copy on the host, after all work. Throws Error(kInternal) when an element was never
  // written.
  Tensor to_host() const {
    cuda_emulator::run_all_queues();
    Tensor tensor(dtype_, shape_);
    for_each_row([&](const std::byte* row, std::size_t offset, std::size_t bytes) {
      auto* const host = static_cast<std::byte*>(tensor.view().raw());
      cuda_emulator::copy_from_device(host + offset, row, bytes);
    });
    return tensor;
  }

 private:
  // Calls work(a row's first byte, its offset in a dense tensor, its bytes).
  template <class Work>
  void for_each_row(Work work) const {
    const std::int64_t rows = shape_.rank() == 0 ? 1 : shape_[0];
    if (rows == 0) return;
    const std::size_t size = dtype_size_bytes(dtype_);
    const std::size_t bytes = static_cast<std::size_t>(shape_.num_elements() / rows) * size;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto row = static_cast<std::size_t>(r);
      work(begin_ + row * static_cast<std::size_t>(row_stride_) * size, row * bytes, bytes);
    }
  }

  std::byte* begin_ = nullptr;
  DType dtype_;
  Shape shape_;
  std::int64_t row_stride_ = 0;
};

// Calls work(stream) with a stream of the emulated GPU, and checks that no fault is found. Returns
// what the emulator reports.
template <class Work>
cuda_emulator::Report run_emulated(const cuda_emulator::Options& options, Work work) {
  const cuda_emulator::Emulation emulation(options);
  ThreadPool pool(1);
  Stream stream(Context{.device = Device::kCuda}, pool);
  work(stream);
  stream.synchronize();
  cuda_emulator::Report report = emulation.report();
  CHECK(report.describe_faults() == "");
  CHECK(report.launches > 0);
  return report;
}

template <class Work>
cuda_emulator::Report run_emulated(std::uint64_t seed, Work work) {
  return run_emulated(cuda_emulator::Options{.seed = seed}, work);
}

// The report has the costs of accesses.
template <class Work>
cuda_emulator::Report run_counted(Work work) {
  return run_emulated(cuda_emulator::Options{.counts_costs = true}, work);
}

// Orders of threads that each test runs: ascending, and two more.
inline constexpr std::uint64_t kSeeds[] = {0, 1, 2};

// Checks that work(stream) moves at most 5 % more sectors and wavefronts than it has to, in every
// instruction, and that a lane loads and stores at least `least_bytes` of global memory at a time,
// unless all lanes of a warp access one place. Returns the report.
template <class Work>
cuda_emulator::Report check_wastes_nothing(Work work, int least_bytes) {
  using cuda_emulator::AccessKind;
  const cuda_emulator::Report report = run_counted(work);
  CHECK(report.describe_waste(1.05) == "");
  for (const cuda_emulator::InstructionCost& cost : report.costs) {
    const bool is_global =
        cost.kind == AccessKind::kLoadGlobal || cost.kind == AccessKind::kStoreGlobal;
    if (is_global && cost.units > cost.requests) CHECK(cost.size_bytes >= least_bytes);
  }
  return report;
}

// Calls work(stream) with a stream of the CPU's reference tier.
template <class Work>
void run_on_cpu(Work work) {
  ThreadPool pool(1);
  Stream stream(pool, CpuTier::kReference);
  work(stream);
}

// Checks that `got` is `from` rounded to the dtype of `got`, bit for bit.
inline void check_rounded(const Tensor& got, const Tensor& from) {
  CHECK(same_bits(got, converted(from, got.dtype())));
}

// The elements of an f32 tensor as doubles, and a tolerance for each that `of` returns.
template <class Of>
std::vector<double> tolerances(const Tensor& want, Of of) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < want.num_elements(); ++i) all.push_back(of(i));
  return all;
}

}  // namespace caption::testing
