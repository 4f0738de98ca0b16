// kernels_bench: the dense layer and attention in decoding beside what this machine can do in the
// same minute.
//
//   kernels_bench [threads] [linear | attention]
//
// Prints, for each tier with the layout of bf16 weights that it likes, GFLOP/s and the rate at
// which weights are read, for a decoder's shape at the batch sizes of decoding and prefill. The
// limits are measured around them: bytes per second of reading memory, and multiply-adds from
// registers. Attention: pages of each dtype, as rates of K and V read and of tokens; and by key
// clusters of half the context, of which an eighth is asked for: 56 % of the keys. Host speed
// drifts: compare lines of one run.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu_tier.h"
#include "backend/stream.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/linear.h"
#include "kernels/packed_weight.h"
#include "kernels/paged_attention.h"
#include "tensor/tensor.h"

namespace {

using caption::ConstView;
using caption::CpuTier;
using caption::DType;
using caption::Stream;
using caption::Tensor;
using caption::kernels::PackedWeight;

constexpr std::int64_t kFeatures = 3072;
constexpr std::int64_t kHidden = 1024;
constexpr int kRounds = 7;

// Seconds of one call: the median of kRounds rounds of at least 20 ms.
double seconds_per_call(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  call();
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const Clock::time_point start = Clock::now();
    int calls = 0;
    double elapsed = 0;
    do {
      call();
      ++calls;
      elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    } while (elapsed < 0.02);
    rounds.push_back(elapsed / calls);
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

// Small integers: exact in every dtype, and no subnormals to slow the arithmetic.
Tensor filled(DType dtype, const caption::Shape& shape) {
  Tensor tensor(dtype, shape);
  caption::dispatch_float(dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.as<T>()[i] = caption::from_float<T>(static_cast<float>(i % 7 - 3));
    }
  });
  return tensor;
}

// Bytes per second of reading 512 MiB, far beyond the caches, once through.
double read_rate(caption::ThreadPool& pool) {
  constexpr std::int64_t kWords = (512LL << 20) / 8;
  std::vector<std::uint64_t> memory(kWords, 1);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(pool.num_threads()) * 64, 0);
  const double seconds = seconds_per_call([&] {
    pool.parallel_for(pool.num_threads(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        const std::int64_t size = kWords / pool.num_threads();
        std::uint64_t sum = 0;
        for (std::int64_t i = part * size; i < (part + 1) * size; ++i) sum += memory[i];
        sums[static_cast<std::size_t>(part) * 64] = sum;
      }
    });
  });
  if (sums[0] == 0) std::puts("");  // the sums are used: the reads cannot be left out
  return kWords * 8 / seconds;
}

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

// One decoding step's attention of several sequences, layer after layer so that pages come from
// memory: 4 layers of 8 sequences of 4096 tokens, 8 key heads of 64 for 16 query heads.
struct AttentionBench {
  static constexpr std::int64_t kSeqs = 8, kContext = 4096, kPageTokens = 16, kLayers = 4;
  static constexpr std::int64_t kHeads = 16, kKvHeads = 8, kHeadDim = 64, kClusterTokens = 16;
  static constexpr std::int64_t kClusters = kContext / kClusterTokens / 2;  // of half the context

  explicit AttentionBench(DType dtype) : q(filled(DType::kF32, {kSeqs, kHeads, kHeadDim})) {
    constexpr std::int64_t kPages = kSeqs * kContext / kPageTokens;
    for (std::int64_t i = 0; i < 2 * kLayers; ++i) {
      pages.emplace_back(dtype, caption::Shape{kPages, kPageTokens, kKvHeads, kHeadDim});
      auto* const bytes = static_cast<std::uint8_t*>(pages.back().view().raw());
      // Small numbers in every dtype: 0x3C3C is 0.0115 in bf16, 1.06 in f16, 60 in i8.
      std::fill_n(bytes, pages.back().size_bytes(), std::uint8_t{0x3C});
      if (dtype == DType::kI8) {
        scales.push_back(filled(DType::kBF16, {kPages, kPageTokens, kKvHeads}));
      }
    }
    for (std::int32_t s = 0; s <= kSeqs; ++s) cu.as<std::int32_t>()[s] = s;
    std::fill_n(lens.as<std::int32_t>(), kSeqs, std::int32_t{kContext});
    for (std::int64_t i = 0; i < kPages; ++i) {  // in no order that memory likes
      table.as<std::int32_t>()[i] = static_cast<std::int32_t>(i * 1021 % kPages);
    }
    std::fill_n(centroids.as<float>(), centroids.num_elements(), 0.0f);
    std::fill_n(sizes.as<std::int32_t>(), sizes.num_elements(), std::int32_t{kClusterTokens});
    for (std::int64_t i = 0; i < cluster_of.num_elements(); ++i) {
      cluster_of.as<std::int32_t>()[i] =
          static_cast<std::int32_t>(i % (kContext / 2) / kClusterTokens);
    }
    // All queries are ones: exp(8) for one cluster of eight, exp(0) for the others.
    std::fill_n(q.as<float>(), q.num_elements(), 1.0f);
    for (std::int64_t c = 0; c < kKvHeads * kClusters; c += 8) {
      std::fill_n(centroids.as<float>() + c * kHeadDim, kHeadDim, 1.0f);
    }
  }

  double seconds_per_layer(Stream& stream, float threshold) {
    const caption::kernels::KeyClusters clusters{.centroids = centroids.view(),
                                                 .sizes = sizes.view(),
                                                 .cluster_of = cluster_of.view(),
                                                 .threshold = threshold};
    const std::vector<const caption::kernels::KeyClusters*> by_sequence(kSeqs, &clusters);
    Tensor y(DType::kF32, q.shape());
    std::size_t next = 0;
    return seconds_per_call([&] {
      const std::size_t layer = 2 * (next++ % kLayers);
      caption::kernels::PagedContext context{
          .k_pages = pages[layer].view(),
          .v_pages = pages[layer + 1].view(),
          .cu_seqlens = cu.view(),
          .context_lens = lens.view(),
          .block_tables = table.view().reshape({kSeqs, kContext / kPageTokens}),
          .k_scales = scales.empty() ? ConstView{} : scales[layer].view(),
          .v_scales = scales.empty() ? ConstView{} : scales[layer + 1].view()};
      if (threshold > 0) context.clusters = by_sequence;
      caption::kernels::paged_attention(stream, q.view(), context, 0.125f, y.view());
    });
  }

  std::size_t layer_bytes() const {
    const std::size_t elements = pages[0].size_bytes();
    return 2 * (elements + (scales.empty() ? 0 : scales[0].size_bytes()));
  }

  Tensor q;
  std::vector<Tensor> pages, scales;  // K and V of each layer in turn
  Tensor cu{DType::kI32, {kSeqs + 1}};
  Tensor lens{DType::kI32, {kSeqs}};
  Tensor table{DType::kI32, {kSeqs * kContext / kPageTokens}};
  Tensor centroids{DType::kF32, {kKvHeads, kClusters, kHeadDim}};
  Tensor sizes{DType::kI32, {kKvHeads, kClusters}};
  Tensor cluster_of{DType::kI32, {kKvHeads, kContext / 2}};
};

void bench_attention(Stream& stream, DType dtype) {
  AttentionBench bench(dtype);
  const double rate = read_rate(stream.pool());
  const double seconds = bench.seconds_per_layer(stream, 0);
  const double squeezed = bench.seconds_per_layer(stream, 0.002f);
  const auto bytes = static_cast<double>(bench.layer_bytes());
  constexpr auto kTokens = static_cast<double>(AttentionBench::kSeqs * AttentionBench::kContext);
  std::printf(
      "  %-10s %-4s %5.0f bytes/token  %6.2f GB/s of K and V, %3.0f %% of reading  %7.1f Mtokens/s "
      " "
      "by clusters %5.2fx\n",
      std::string(cpu_tier_name(stream.cpu_tier())).c_str(), std::string(dtype_name(dtype)).c_str(),
      bytes / kTokens, bytes / seconds / 1e9, 100 * bytes / seconds / rate, kTokens / seconds / 1e6,
      seconds / squeezed);
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

void bench_attention_pages(caption::ThreadPool& pool) {
  std::printf("decoding attention: 8 sequences of 4096 tokens, 8 key heads of 64, 16 heads\n");
  for (const CpuTier tier : caption::supported_cpu_tiers()) {
    Stream stream(pool, tier);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
      bench_attention(stream, dtype);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 2;
  caption::ThreadPool pool(threads);
  const std::string part = argc > 2 ? argv[2] : "";
  std::printf("memory read before: %.1f GB/s\n", read_rate(pool) / 1e9);
  if (part != "attention") bench_linear_layers(pool);
  if (part != "linear") bench_attention_pages(pool);
  std::printf("memory read after: %.1f GB/s\n", read_rate(pool) / 1e9);
  return 0;
}
