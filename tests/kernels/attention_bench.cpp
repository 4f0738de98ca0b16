// Attention in kernels_bench on the fastest tier, with the shape of qwen3-0.6b: 16 heads, 8 key
// heads, head_dim 128, pages of 16 tokens in random order.
//
//   decode   one row of each sequence: bytes of distinct pages per second, also as a share of the
//            rate of reading memory; "shared": all but the last 32 tokens are common to all
//   prefill  the last rows of one sequence: operations per second, masked ones not counted, also as
//            a share of the rate of the tier's panel product with its operands in the first-level
//            cache
//   vision   a layer of a vision tower, on any tier
//
// Decode and prefill: each round measures the limit and then the operation; the share is the median
// over the rounds.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "backend/stream.h"
#include "kernels/attention.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/paged_attention.h"
#include "tests/kernels/bench_rates.h"

namespace caption::testing {
namespace {

constexpr std::int64_t kHeads = 16, kKvHeads = 8, kHeadDim = 128, kPageTokens = 16;
constexpr std::int64_t kNumPages = 8192;  // 256 MiB of K in bf16, and as much V

// Measures the rate of reading memory that is much larger than the caches.
class MemoryReader {
 public:
  double seconds(ThreadPool& pool) {
    const auto part = static_cast<std::int64_t>(words_.size()) / pool.num_threads();
    return seconds_once([&] {
      pool.parallel_for(pool.num_threads(), 1, [&](std::int64_t begin, std::int64_t end) {
        std::uint64_t sum = 0;
        for (std::int64_t i = begin * part; i < end * part; ++i) {
          sum += words_[static_cast<std::size_t>(i)];
        }
        if (sum == 0) std::puts("");  // uses the sums, so that the compiler keeps the reads
      });
    });
  }
  double bytes() const { return static_cast<double>(words_.size() * sizeof(words_[0])); }

 private:
  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(16 << 20, 1);
};

// Operations per second of products with panels that stay in the first-level cache.
double panel_rate(Stream& stream, bool pairs) {
  constexpr std::int64_t kRows = 48, kPairs = 64, kRepeats = 400;
  const auto& tier = kernels::cpu::select_tier(stream.cpu_tier());
  const Tensor a = filled(pairs ? DType::kBF16 : DType::kF32, {kRows, 2 * kPairs});
  const Tensor b = filled(pairs ? DType::kBF16 : DType::kF32, {64, kPairs, 2});
  const int threads = stream.pool().num_threads();
  const double seconds = seconds_once([&] {
    stream.pool().parallel_for(threads, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> c(kRows * 64);
      for (std::int64_t i = begin * kRepeats; i < end * kRepeats; ++i) {
        if (pairs) {
          tier.panel_gemm({.a = static_cast<const std::uint16_t*>(a.view().raw()),
                           .a_stride = 2 * kPairs,
                           .panels = static_cast<const std::uint16_t*>(b.view().raw()),
                           .num_pairs = kPairs,
                           .num_panels = 2,
                           .c = c.data(),
                           .c_stride = 64,
                           .m = kRows});
        } else {
          tier.attention.float_panel_gemm({.a = a.as<float>(),
                                           .a_stride = 2 * kPairs,
                                           .panels = b.as<float>(),
                                           .depth = 2 * kPairs,
                                           .num_panels = 2,
                                           .c = c.data(),
                                           .c_stride = 64,
                                           .m = kRows});
        }
      }
    });
  });
  return 2.0 * threads * kRepeats * kRows * 2 * kPairs * 64 / seconds;
}

struct Pages {
  explicit Pages(DType dtype) {
    for (Tensor* const half : {&k, &v}) {
      *half = Tensor(dtype, {kNumPages, kPageTokens, kKvHeads, kHeadDim});
      // A small number in every dtype: 0x3C3C is 0.0115 in bf16, 1.06 in f16, 60 in i8.
      std::fill_n(static_cast<std::uint8_t*>(half->view().raw()), half->size_bytes(),
                  std::uint8_t{0x3C});
    }
    if (dtype == DType::kI8) scales = filled(DType::kBF16, {kNumPages, kPageTokens, kKvHeads});
  }
  double bytes_per_token() const {
    return 2.0 * static_cast<double>(k.size_bytes() + scales.size_bytes()) /
           (kNumPages * kPageTokens);
  }
  Tensor k, v, scales;
};

struct Step {
  std::int64_t num_seqs, rows, context, shared_tokens;
};

// Repeats one step's call with different pages each time, as the layers of a model have.
class StepBench {
 public:
  StepBench(const Pages& pages, const Step& step)
      : pages_(pages),
        step_(step),
        q_(filled(DType::kF32, {step.num_seqs * step.rows, kHeads, kHeadDim})),
        y_(DType::kF32, q_.shape()),
        cu_(DType::kI32, {step.num_seqs + 1}),
        lens_(DType::kI32, {step.num_seqs}),
        table_(DType::kI32, {step.num_seqs, step.context / kPageTokens}) {
    for (std::int64_t s = 0; s <= step.num_seqs; ++s) {
      cu_.as<std::int32_t>()[s] = static_cast<std::int32_t>(s * step.rows);
    }
    std::fill_n(lens_.as<std::int32_t>(), step.num_seqs, static_cast<std::int32_t>(step.context));
  }

  std::int64_t distinct_tokens() const {
    return step_.num_seqs * (step_.context - step_.shared_tokens) + step_.shared_tokens;
  }
  // Operations per call; masked ones are not counted.
  double operations() const {
    double visible = 0;
    for (std::int64_t i = 0; i < step_.rows; ++i) {
      visible += static_cast<double>(step_.context - step_.rows + i + 1);
    }
    return 4.0 * kHeadDim * kHeads * visible * static_cast<double>(step_.num_seqs);
  }
  double seconds(Stream& stream) {
    const std::int64_t calls =
        std::max<std::int64_t>(1, kNumPages * kPageTokens / 2 / (distinct_tokens() * step_.rows));
    double total = 0;
    for (std::int64_t call = 0; call < calls; ++call) {
      choose_pages();
      total += seconds_once([&] { attend(stream); });
    }
    return total / static_cast<double>(calls);
  }

 private:
  void choose_pages() {
    const std::int64_t per_seq = step_.context / kPageTokens;
    const std::int64_t shared = step_.shared_tokens / kPageTokens;
    for (std::int64_t s = 0; s < step_.num_seqs; ++s) {
      std::int32_t* const row = table_.as<std::int32_t>() + s * per_seq;
      for (std::int64_t i = 0; i < per_seq; ++i) {
        const bool is_shared = s > 0 && i < shared;
        row[i] = is_shared ? table_.as<std::int32_t>()[i]
                           : static_cast<std::int32_t>(next_page_++ * 1021 % kNumPages);
      }
    }
  }
  void attend(Stream& stream) {
    const ConstView scales = pages_.scales.empty() ? ConstView() : pages_.scales.view();
    kernels::paged_attention(stream, q_.view(),
                             {.k_pages = pages_.k.view(),
                              .v_pages = pages_.v.view(),
                              .cu_seqlens = cu_.view(),
                              .context_lens = lens_.view(),
                              .block_tables = std::as_const(table_).view(),
                              .k_scales = scales,
                              .v_scales = scales},
                             0.0884F, y_.view());
  }

  const Pages& pages_;
  Step step_;
  std::int64_t next_page_ = 0;
  Tensor q_, y_, cu_, lens_, table_;
};

// Returns the medians over the rounds of the rate and of its share of the limit.
template <class Limit, class Rate>
std::pair<double, double> measure(const Limit& limit, const Rate& rate) {
  std::vector<double> rates, shares;
  for (int round = 0; round < kRounds; ++round) {
    const double most = limit();
    rates.push_back(rate());
    shares.push_back(rates.back() / (0.5 * (most + limit())));
  }
  const auto median = [](std::vector<double>& x) {
    std::nth_element(x.begin(), x.begin() + kRounds / 2, x.end());
    return x[kRounds / 2];
  };
  return {median(rates), median(shares)};
}

void bench_decode(Stream& stream, const Pages& pages, MemoryReader& reader) {
  constexpr Step kSteps[] = {{1, 1, 512, 0},     {1, 1, 2048, 0},   {16, 1, 512, 0},
                             {16, 1, 2048, 0},   {64, 1, 512, 0},   {64, 1, 2048, 0},
                             {16, 1, 512, 480},  {64, 1, 512, 480}, {16, 1, 2048, 2016},
                             {64, 1, 2048, 2016}};
  const std::string dtype(dtype_name(pages.k.dtype()));
  for (const Step& step : kSteps) {
    StepBench bench(pages, step);
    const double bytes = static_cast<double>(bench.distinct_tokens()) * pages.bytes_per_token();
    const auto [rate, share] =
        measure([&] { return reader.bytes() / reader.seconds(stream.pool()); },
                [&] { return bytes / bench.seconds(stream); });
    std::printf(
        "  decode  %-4s B=%-2lld context %-4lld %-8s %6.2f GB/s, %3.0f %% of reading  %8.1f us\n",
        dtype.c_str(), static_cast<long long>(step.num_seqs), static_cast<long long>(step.context),
        step.shared_tokens > 0 ? "shared" : "distinct", rate / 1e9, 100 * share,
        bytes / rate * 1e6);
  }
}

void bench_prefill(Stream& stream, const Pages& pages) {
  const auto& tier = kernels::cpu::select_tier(stream.cpu_tier());
  const auto element = static_cast<std::size_t>(kernels::cpu::element_of(pages.k.dtype()));
  const bool pairs = tier.attention.pack[element].to_pairs;
  for (const Step& step : {Step{1, 512, 512, 0}, Step{1, 512, 2048, 0}, Step{4, 32, 512, 480}}) {
    StepBench bench(pages, step);
    const auto [rate, share] = measure([&] { return panel_rate(stream, pairs); },
                                       [&] { return bench.operations() / bench.seconds(stream); });
    std::printf(
        "  prefill %-4s B=%-2lld rows %-4lld of %-4lld %8.1f GFLOP/s, %3.0f %% of the %s rate\n",
        std::string(dtype_name(pages.k.dtype())).c_str(), static_cast<long long>(step.num_seqs),
        static_cast<long long>(step.rows), static_cast<long long>(step.context), rate / 1e9,
        100 * share, pairs ? "bf16" : "f32");
  }
}

// Attention of a layer of a vision tower: `frames` images, or windows, of `tokens` rows.
struct VisionCase {
  const char* name;
  std::int64_t frames, tokens, heads, head_dim;
};
constexpr VisionCase kVisionCases[] = {
    {"CLIP ViT-L/14-336", 1, 577, 16, 64}, {"SigLIP so400m/14-384", 1, 729, 16, 72},
    {"InternViT-300M", 1, 1025, 16, 64},   {"Qwen3-VL", 2, 880, 16, 64},
    {"Qwen2.5-VL", 2, 1196, 16, 80},       {"Qwen2.5-VL, windows", 32, 64, 16, 80}};

// Irregular numbers in [-2, 2].
Tensor irregular(DType dtype, const Shape& shape, std::int64_t seed) {
  Tensor tensor(dtype, shape);
  dispatch_float(dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
      const std::int64_t step = (i + seed) * 7919 % 100003 % 257 - 128;
      tensor.as<T>()[i] = from_float<T>(static_cast<float>(step) / 64);
    }
  });
  return tensor;
}

void bench_vision(Stream& stream, const VisionCase& of, DType dtype) {
  const Shape shape = {of.frames * of.tokens, of.heads, of.head_dim};
  const Tensor q = irregular(DType::kF32, shape, 1);
  const Tensor k = irregular(dtype, shape, 2);
  const Tensor v = irregular(dtype, shape, 3);
  Tensor y(DType::kF32, shape);
  const double seconds = seconds_per_call([&] {
    kernels::attention(stream,
                       {.q = q.view(),
                        .k = k.view(),
                        .v = v.view(),
                        .seq_len = of.tokens,
                        .scale = 1 / std::sqrt(static_cast<float>(of.head_dim))},
                       y.view());
  });
  const auto scores = static_cast<double>(of.frames * of.heads * of.tokens * of.tokens);
  std::printf("  vision  %-4s %-21s %8.3f ms %8.1f GFLOP/s %6.3f ns of a thread per score\n",
              std::string(dtype_name(dtype)).c_str(), of.name, seconds * 1e3,
              4 * scores * static_cast<double>(of.head_dim) / seconds / 1e9,
              seconds * stream.pool().num_threads() / scores * 1e9);
}

}  // namespace

void bench_attention(ThreadPool& pool) {
  Stream stream(pool);
  MemoryReader reader;
  std::printf("attention, tier %s, %d threads\n",
              std::string(cpu_tier_name(stream.cpu_tier())).c_str(), pool.num_threads());
  for (const DType dtype : {DType::kBF16, DType::kI8, DType::kF16}) {
    const Pages pages(dtype);
    bench_decode(stream, pages, reader);
    bench_prefill(stream, pages);
  }
  bench_vision_attention(pool, stream.cpu_tier());
}

void bench_vision_attention(ThreadPool& pool, CpuTier tier) {
  Stream stream(pool, tier);
  std::printf("attention of vision towers, tier %s, %d threads\n",
              std::string(cpu_tier_name(tier)).c_str(), pool.num_threads());
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const VisionCase& of : kVisionCases) bench_vision(stream, of, dtype);
  }
}

}  // namespace caption::testing
