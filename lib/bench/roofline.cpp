#include "bench/roofline.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "bench/internal/gpu_rates.h"
#include "bench/internal/multiply_add.h"
#include "bench/statistics.h"
#include "tensor/tensor.h"

namespace caption::bench {
namespace {

struct Arithmetic {
  MultiplyAdd run = nullptr;
  int flops_per_chain = 2;  // FLOPs per round of one chain
};

Arithmetic f32_of(CpuTier tier) {
  switch (tier) {
#if defined(__x86_64__)
    case CpuTier::kAmx:
    case CpuTier::kAvx512Bf16:
    case CpuTier::kAvx512: return {multiply_add_avx512, 2 * kAvx512Width};
    case CpuTier::kAvx2: return {multiply_add_avx2, 2 * kAvx2Width};
#endif
    default: return {multiply_add_reference, 2 * kReferenceWidth};
  }
}

std::optional<Arithmetic> bf16_of(CpuTier tier) {
#if defined(__x86_64__)
  if (tier == CpuTier::kAmx) return Arithmetic{multiply_add_amx, kTileFlops};
  if (tier == CpuTier::kAvx512Bf16) return Arithmetic{multiply_add_avx512bf16, 4 * kAvx512Width};
#endif
  static_cast<void>(tier);
  return std::nullopt;
}

std::optional<Arithmetic> int8_of(CpuTier tier) {
#if defined(__x86_64__)
  if (tier == CpuTier::kAmx) return Arithmetic{multiply_add_amx_int8, kInt8TileFlops};
  if (tier == CpuTier::kAvx512Bf16) return Arithmetic{multiply_add_avx512vnni, 8 * kAvx512Width};
  if (tier == CpuTier::kAvx512) return Arithmetic{multiply_add_avx512_int8, 4 * kAvx512Width};
  if (tier == CpuTier::kAvx2) {
    if (has_cpu_feature("avxvnni")) return Arithmetic{multiply_add_avxvnni, 8 * kAvx2Width};
    return Arithmetic{multiply_add_avx2_int8, 4 * kAvx2Width};
  }
#endif
  static_cast<void>(tier);
  return std::nullopt;
}

std::optional<Arithmetic> int4_of(CpuTier tier) {
#if defined(__x86_64__)
  if (tier == CpuTier::kAvx512) return Arithmetic{multiply_add_avx512_int4, 8 * kAvx512Width};
  if (tier == CpuTier::kAvx2 && !has_cpu_feature("avxvnni")) {
    return Arithmetic{multiply_add_avx2_int4, 8 * kAvx2Width};
  }
#endif
  static_cast<void>(tier);
  return std::nullopt;
}

// Calls work(i) once per thread with i = 0, 1, ... and measures the time.
template <class Work>
double time_on_all_threads(ThreadPool& pool, const Work& work) {
  const Stopwatch stopwatch;
  pool.parallel_for(pool.num_threads(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) work(i);
  });
  return static_cast<double>(std::max<std::int64_t>(stopwatch.elapsed_us(), 1)) / 1e6;
}

// Stores the sums, so that the compiler cannot remove the measured work.
struct ResultSink {
  std::atomic<std::uint64_t> value{0};
  void add(std::uint64_t part) { value.fetch_add(part, std::memory_order_relaxed); }
};

std::uint64_t sum_words(const std::uint64_t* words, std::int64_t count) {
  // Eight independent sums hide the latency of the additions.
  std::array<std::uint64_t, 8> sums{};
  for (std::int64_t i = 0; i + 8 <= count; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += words[i + static_cast<int>(lane)];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

double measure_read(ThreadPool& pool, const RooflineOptions& options) {
  constexpr std::int64_t kWordBytes = 8;
  const std::int64_t num_threads = pool.num_threads();
  const std::int64_t words_each = options.buffer_bytes / kWordBytes / num_threads;
  Tensor buffer(DType::kI64, {words_each * num_threads});
  auto* const words = reinterpret_cast<std::uint64_t*>(buffer.as<std::int64_t>());
  // First-touch placement: the thread that first writes a page determines its NUMA node.
  time_on_all_threads(pool, [&](std::int64_t i) {
    std::memset(words + i * words_each, 1, static_cast<std::size_t>(words_each * kWordBytes));
  });
  ResultSink sink;
  std::vector<double> rates;
  for (int pass = 0; pass < options.num_passes; ++pass) {
    const double seconds = time_on_all_threads(
        pool, [&](std::int64_t i) { sink.add(sum_words(words + i * words_each, words_each)); });
    rates.push_back(static_cast<double>(words_each * num_threads * kWordBytes) / seconds);
  }
  return sink.value == 1 ? 0 : median(std::move(rates));
}

double measure_flops(ThreadPool& pool, const Arithmetic& arithmetic,
                     const RooflineOptions& options) {
  const double flops_per_round =
      static_cast<double>(kMultiplyAddChains) * arithmetic.flops_per_chain;
  ResultSink sink;
  const auto run = [&](std::int64_t rounds) {
    return time_on_all_threads(pool, [&](std::int64_t i) {
      const float sum = arithmetic.run(rounds, static_cast<float>(i));
      sink.add(sum > 0 ? 2 : 4);
    });
  };
  // Derives the rounds per pass from a short trial.
  constexpr std::int64_t kFirstRounds = 100'000;
  const double first_s = run(kFirstRounds);
  const auto rounds =
      std::max(kFirstRounds, static_cast<std::int64_t>(static_cast<double>(kFirstRounds) *
                                                       static_cast<double>(options.flops_pass_us) /
                                                       1e6 / first_s));
  std::vector<double> rates;
  for (int pass = 0; pass < options.num_passes; ++pass) {
    const double seconds = run(rounds);
    rates.push_back(flops_per_round * static_cast<double>(rounds * pool.num_threads()) / seconds);
  }
  return sink.value == 1 ? 0 : median(std::move(rates));
}

}  // namespace

Roofline measure_roofline(Stream& stream, const RooflineOptions& options) {
  CAPTION_CHECK(options.num_passes >= 1 && options.buffer_bytes >= (1 << 20),
                "roofline: at least one pass over at least a mebibyte");
  if (stream.device().is_cuda()) return measure_gpu(stream, options);
  ThreadPool& pool = stream.pool();
  Roofline roofline;
  roofline.num_threads = pool.num_threads();
  roofline.read_bytes_per_s = measure_read(pool, options);
  roofline.f32_flops_per_s = measure_flops(pool, f32_of(stream.cpu_tier()), options);
  roofline.flops_per_s = roofline.f32_flops_per_s;
  if (const auto bf16 = bf16_of(stream.cpu_tier())) {
    const double flops_per_s = measure_flops(pool, *bf16, options);
    if (flops_per_s > roofline.flops_per_s) {
      roofline.flops_per_s = flops_per_s;
      roofline.arithmetic = "bf16";
    }
  }
  roofline.int8_flops_per_s = roofline.flops_per_s;
  if (const auto int8 = int8_of(stream.cpu_tier())) {
    roofline.own_int8_flops_per_s = measure_flops(pool, *int8, options);
    roofline.int8_flops_per_s = std::max(roofline.flops_per_s, roofline.own_int8_flops_per_s);
  }
  if (const auto int4 = int4_of(stream.cpu_tier())) {
    roofline.own_int4_flops_per_s = measure_flops(pool, *int4, options);
  }
  return roofline;
}

Operands operands_of(MatrixFormat format) {
  if (format == MatrixFormat::kInt8Row) return Operands::k8Bits;
  return format == MatrixFormat::kInt4A8 ? Operands::k4And8Bits : Operands::k16Bits;
}

Operands operands_of(weights::WeightFormat format, weights::Role role) {
  if (format == weights::WeightFormat::kF32) return Operands::kF32;
  return operands_of(weights::matrix_format(format, role));
}

Peak peak_of(const Roofline& roofline, Operands operands) {
  constexpr std::string_view kIntegers = "8-bit integers";
  const Peak of_16_bits{roofline.flops_per_s, roofline.arithmetic};
  const Peak of_8_bits = roofline.int8_flops_per_s > roofline.flops_per_s
                             ? Peak{roofline.int8_flops_per_s, kIntegers}
                             : of_16_bits;
  switch (operands) {
    case Operands::kF32: return {roofline.f32_flops_per_s, "f32"};
    case Operands::k16Bits: return of_16_bits;
    case Operands::k8Bits: return of_8_bits;
    case Operands::k4And8Bits: break;
  }
  return roofline.own_int4_flops_per_s > of_8_bits.flops_per_s
             ? Peak{roofline.own_int4_flops_per_s, "8-bit integers and 4-bit codes"}
             : of_8_bits;
}

Peak mean_peak(const Roofline& before, const Roofline& after, Operands operands) {
  Peak peak = peak_of(before, operands);
  peak.flops_per_s = (peak.flops_per_s + peak_of(after, operands).flops_per_s) / 2;
  return peak;
}

Roofline best_of(const Roofline& a, const Roofline& b) {
  Roofline best = a.flops_per_s >= b.flops_per_s ? a : b;
  best.read_bytes_per_s = std::max(a.read_bytes_per_s, b.read_bytes_per_s);
  best.f32_flops_per_s = std::max(a.f32_flops_per_s, b.f32_flops_per_s);
  best.own_int8_flops_per_s = std::max(a.own_int8_flops_per_s, b.own_int8_flops_per_s);
  best.own_int4_flops_per_s = std::max(a.own_int4_flops_per_s, b.own_int4_flops_per_s);
  best.int8_flops_per_s = std::max(best.flops_per_s, best.own_int8_flops_per_s);
  return best;
}

}  // namespace caption::bench
