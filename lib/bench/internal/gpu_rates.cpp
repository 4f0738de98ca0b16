#include "bench/internal/gpu_rates.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bench/statistics.h"
#include "kernels/peak_rate.h"
#include "tensor/copy.h"
#include "tensor/tensor.h"

namespace caption::bench {
namespace {

using kernels::PeakArithmetic;

// A pass is to be long beside the microseconds of a launch.
constexpr double kPassSeconds = 1e-3;
constexpr std::int64_t kWarmUpUsPerPass = 30'000;
constexpr std::int64_t kFirstCopyBytes = 1LL << 16;
constexpr std::int64_t kMostBlocks = 1LL << 24;

// The time that the GPU takes for what `work` gives to the stream.
template <class Work>
double time_of(Stream& stream, const Work& work) {
  const Event begin = stream.record();
  work();
  const Event end = stream.record();
  return std::max(std::chrono::duration<double>(end.since(begin)).count(), 1e-9);
}

template <class Work>
double median_time(Stream& stream, int num_passes, const Work& work) {
  std::vector<double> times;
  for (int pass = 0; pass < num_passes; ++pass) times.push_back(time_of(stream, work));
  return median(std::move(times));
}

struct Copies {
  std::int64_t most_bytes = 0;  // largest size of one copy
  int num_copies = 1;           // copies of a pass, one after another
};
// Copies within a GPU's memory: a single one, which is to exceed the caches.
constexpr Copies kOnDevice = {.most_bytes = 1LL << 30};
constexpr Copies kWithHost = {.most_bytes = 4LL << 20, .num_copies = 16};

// Bytes per second of copies between two tensors that `make` makes of so many bytes; the size
// doubles until a pass takes kPassSeconds.
template <class Make>
double measure_copies(Stream& stream, int num_passes, const Copies& copies, const Make& make) {
  for (std::int64_t size_bytes = kFirstCopyBytes;; size_bytes *= 2) {
    auto [from, to] = make(size_bytes);
    const auto work = [&] {
      for (int i = 0; i < copies.num_copies; ++i) {
        copy(stream, std::as_const(from).view(), to.view());
      }
    };
    work();  // the first copy may wait for the driver
    if (size_bytes >= copies.most_bytes || time_of(stream, work) >= kPassSeconds) {
      return static_cast<double>(size_bytes * copies.num_copies) /
             median_time(stream, num_passes, work);
    }
  }
}

double measure_arithmetic(Stream& stream, PeakArithmetic arithmetic, int num_passes) {
  Tensor sums(DType::kF32, {kernels::kPeakThreads}, stream.device());
  std::int64_t blocks = 1;
  double flops = 0;
  const auto work = [&] {
    flops = kernels::run_multiply_adds(stream, arithmetic, blocks, sums.view());
  };
  work();
  while (blocks < kMostBlocks && time_of(stream, work) < kPassSeconds) blocks *= 2;
  return flops / median_time(stream, num_passes, work);
}

}  // namespace

Roofline measure_gpu(Stream& stream, const RooflineOptions& options) {
  const Device device = stream.device();
  const auto on_device = [&](std::int64_t size_bytes) {
    return Tensor::zeros(DType::kI8, {size_bytes}, device);
  };
  const auto on_host = [&](std::int64_t size_bytes) {
    return Tensor::staging(DType::kI8, {size_bytes}, device);
  };
  Roofline rates;
  rates.is_gpu = true;
  // The clock rises under load.
  const Stopwatch stopwatch;
  while (stopwatch.elapsed_us() < kWarmUpUsPerPass * options.num_passes) {
    measure_arithmetic(stream, PeakArithmetic::k16Bits, 1);
  }
  // A copy reads each byte and writes it.
  rates.read_bytes_per_s =
      2 * measure_copies(stream, options.num_passes, kOnDevice,
                         [&](std::int64_t n) { return std::pair(on_device(n), on_device(n)); });
  rates.upload_bytes_per_s =
      measure_copies(stream, options.num_passes, kWithHost,
                     [&](std::int64_t n) { return std::pair(on_host(n), on_device(n)); });
  rates.download_bytes_per_s =
      measure_copies(stream, options.num_passes, kWithHost,
                     [&](std::int64_t n) { return std::pair(on_device(n), on_host(n)); });
  const auto arithmetic = [&](PeakArithmetic of) {
    return measure_arithmetic(stream, of, options.num_passes);
  };
  rates.f32_flops_per_s = arithmetic(PeakArithmetic::kF32);
  rates.flops_per_s = arithmetic(PeakArithmetic::k16Bits);
  rates.own_int8_flops_per_s = arithmetic(PeakArithmetic::kInt8);
  rates.int8_flops_per_s = std::max(rates.flops_per_s, rates.own_int8_flops_per_s);
  const int capability = stream.context().compute_capability;
  rates.arithmetic = capability != 0 && capability < 80 ? "f16" : "bf16";
  return rates;
}

}  // namespace caption::bench
