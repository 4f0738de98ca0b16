// bench/roofline.h: measures the machine's memory bandwidth and arithmetic rate on the threads of
// an engine. Reported rates are compared with these.
//
//   bandwidth  a sum over 256 MiB, larger than the caches, on all threads; median of the passes
//   flops      multiply-adds on registers, on all threads, in the widest vectors of the CPU tier;
//              in f32, in bf16 if the tier has dot products of them, and in the products of
//              integers that its kernels are made of
//
// A GPU has other measures:
//
//   bandwidth  bytes read and written by copies within its memory, of up to 1 GiB, that take a
//              millisecond; also copies from and to pinned memory of the host
//   flops      products by mma.sync of bf16 (f16 where there is no bf16) and of 8-bit integers, and
//              fused multiply-adds of f32, whose operands stay in registers (kernels/peak_rate.h)
//
// The host of a virtual machine is shared, so its rates vary within minutes. They are therefore
// measured before and after a benchmark, and a report gives both (docs/performance.md).
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/stream.h"
#include "tensor/matrix_format.h"
#include "weights/format.h"

namespace caption::bench {

struct Roofline {
  double read_bytes_per_s = 0;
  double f32_flops_per_s = 0;  // a multiply-add counts as two
  // The bound for 16-bit weights: the higher rate of f32 and the tier's bf16; on a GPU that of the
  // tensor cores.
  double flops_per_s = 0;
  std::string_view arithmetic = "f32";  // arithmetic of flops_per_s: "f32", "bf16" or "f16"
  // The higher rate of flops_per_s and the tier's 8-bit integers: the bound for 8-bit activations.
  double int8_flops_per_s = 0;
  // The rate of the tier's 8-bit integers, which may be the lower one; 0 if it has none.
  double own_int8_flops_per_s = 0;
  // The rate of the tier's products of codes of 4 bits and 8-bit integers; 0 where these are
  // products of 8-bit integers.
  double own_int4_flops_per_s = 0;
  int num_threads = 1;
  bool is_gpu = false;  // num_threads means nothing then
  // Copies from and to pinned memory of the host; 0 on the CPU.
  double upload_bytes_per_s = 0;
  double download_bytes_per_s = 0;
};

struct RooflineOptions {
  std::int64_t buffer_bytes = 256LL << 20;  // on the CPU
  int num_passes = 7;                       // number of passes; the result is their median
  std::int64_t flops_pass_us =
      20'000;  // approximate duration of a pass of multiply-adds on the CPU
};

// The operands of products, which decide the rate that bounds them.
enum class Operands {
  kF32,
  k16Bits,     // weights of 16 bits; also codes that are multiplied by activations of 16 bits
  k8Bits,      // codes and activations of 8 bits
  k4And8Bits,  // codes of 4 bits and activations of 8 bits
};
// Those of a dense layer; weights that are held as stored count as numbers of 16 bits.
Operands operands_of(MatrixFormat format);
// Those of the matrices of a role in a model whose weights have the format.
Operands operands_of(weights::WeightFormat format,
                     weights::Role role = weights::Role::kDecoderLinear);

// The highest rate of a machine for such products.
struct Peak {
  double flops_per_s = 0;
  std::string_view arithmetic = {};  // "bf16", "8-bit integers"; as Roofline::arithmetic
};
Peak peak_of(const Roofline& roofline, Operands operands);
// The mean of the rates of two measurements, with the arithmetic of the first.
Peak mean_peak(const Roofline& before, const Roofline& after, Operands operands);

// Takes well under a second. On the CPU uses the stream's thread pool and CPU tier. Throws
// Error(kUnavailable) when a GPU fails.
Roofline measure_roofline(Stream& stream, const RooflineOptions& options = {});

// The higher of each rate of two measurements of the same threads.
Roofline best_of(const Roofline& a, const Roofline& b);

}  // namespace caption::bench
