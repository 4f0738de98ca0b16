// kernels_bench: the dense layer and attention beside what this machine can do in the same minute.
//
//   kernels_bench [threads] [linear | attention]
//
// Prints, for each tier with the layout of bf16 weights that it likes, GFLOP/s and the rate at
// which weights are read, for a decoder's shape at the batch sizes of decoding and prefill. The
// limits are measured around them: bytes per second of reading memory, and multiply-adds from
// registers. Attention: see attention_bench.cpp. Host speed drifts: compare lines of one run.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu_tier.h"
#include "backend/stream.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/linear.h"
#include "kernels/packed_weight.h"
#include "tensor/tensor.h"
#include "tests/kernels/bench_rates.h"

namespace {

using caption::ConstView;
using caption::CpuTier;
using caption::DType;
using caption::Stream;
using caption::Tensor;
using caption::kernels::PackedWeight;
using caption::testing::filled;
using caption::testing::read_rate;
using caption::testing::seconds_per_call;

constexpr std::int64_t kFeatures = 3072;
constexpr std::int64_t kHidden = 1024;

// Operations per second of a product whose operands stay in the first-level cache: the closest to
// the peak of the multiply-add units that a tier's own code can come.
double cached_rate(const Stream& stream) {
  constexpr std::int64_t kRows = 6;
  constexpr std::int64_t kColumns = 4;
  constexpr std::int64_t kDepth = 512;
  constexpr std::int64_t kRepeats = 2000;
  const Tensor a = filled(DType::kF32, {kRows, kDepth});
  const Tensor b = filled(DType::kF32, {kColumns, kDepth});
  const auto& tier = caption::kernels::cpu::select_tier(stream.cpu_tier());
  const int threads = stream.pool().num_threads();
  const double seconds = seconds_per_call([&] {
    stream.pool().parallel_for(threads, 1, [&](std::int64_t begin, std::int64_t end) {
      float c[kRows * kColumns];
      for (std::int64_t i = begin * kRepeats; i < end * kRepeats; ++i) {
        tier.dot[0]({.a = a.as<float>(),
                     .a_stride = kDepth,
                     .b = b.as<float>(),
                     .b_stride = kDepth,
                     .c = c,
                     .c_stride = kColumns,
                     .m = kRows,
                     .n = kColumns,
                     .k = kDepth});
      }
    });
  });
  return 2.0 * threads * kRepeats * kRows * kColumns * kDepth / seconds;
}

// The layers of a model one after the other, so that weights come from memory and not from the
// cache: 32 matrices of 6 MiB in bf16.
void bench_linear(Stream& stream, PackedWeight::Layout layout, std::int64_t rows) {
  constexpr int kLayers = 32;
  const bool is_packed = layout == PackedWeight::Layout::kPanels;
  const Tensor plain = filled(DType::kBF16, {kFeatures, kHidden});
  std::vector<Tensor> copies;
  std::vector<PackedWeight> weights;
  for (int layer = 0; layer < kLayers; ++layer) {
    if (is_packed) {
      weights.push_back(PackedWeight::pack_panels(stream.pool(), plain.view()));
    } else {
      weights.emplace_back(std::as_const(copies.emplace_back(plain.clone())).view());
    }
  }
  const Tensor x = filled(DType::kF32, {rows, kHidden});
  Tensor y(DType::kF32, {rows, kFeatures});
  std::size_t next = 0;
  const double seconds = seconds_per_call([&] {
    caption::kernels::linear(stream, x.view(), weights[next++ % kLayers], ConstView{}, y.view());
  });
  const auto bytes = static_cast<double>(weights[0].size_bytes());
  std::printf("  %-10s %-6s M=%-4lld %8.1f GFLOP/s  %6.2f GB/s of weights\n",
              std::string(cpu_tier_name(stream.cpu_tier())).c_str(), is_packed ? "panels" : "rows",
              static_cast<long long>(rows),
              2.0 * static_cast<double>(rows * kFeatures * kHidden) / seconds / 1e9,
              bytes / seconds / 1e9);
}

void bench_linear_layers(caption::ThreadPool& pool) {
  std::printf("[M, %lld] x [%lld, %lld]^T, %d threads\n", static_cast<long long>(kHidden),
              static_cast<long long>(kFeatures), static_cast<long long>(kHidden),
              pool.num_threads());
  for (const CpuTier tier : caption::supported_cpu_tiers()) {
    Stream stream(pool, tier);
    std::printf("%s: operands in the first-level cache %.1f GFLOP/s\n",
                std::string(cpu_tier_name(tier)).c_str(), cached_rate(stream) / 1e9);
    const auto layout = caption::kernels::prefers_panels(tier) ? PackedWeight::Layout::kPanels
                                                               : PackedWeight::Layout::kRows;
    for (const std::int64_t rows : {1, 4, 8, 16, 32, 256}) bench_linear(stream, layout, rows);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2;
  caption::ThreadPool pool(threads);
  const std::string part = argc > 2 ? argv[2] : "";
  std::printf("memory read before: %.1f GB/s\n", read_rate(pool) / 1e9);
  if (part != "attention") bench_linear_layers(pool);
  if (part != "linear") caption::testing::bench_attention(pool);
  std::printf("memory read after: %.1f GB/s\n", read_rate(pool) / 1e9);
  return 0;
}
