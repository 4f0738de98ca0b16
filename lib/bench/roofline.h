// bench/roofline.h: measures the machine's memory bandwidth and arithmetic rate on the threads of
// an engine. Reported rates are compared with these.
//
//   bandwidth  a sum over 256 MiB, larger than the caches, on all threads; median of the passes
//   flops      multiply-adds on registers, on all threads, in the widest vectors of the CPU tier;
//              in f32, and in bf16 and 8-bit integers if the tier has (and its kernels use) dot
//              products of them
//
// The host of a virtual machine is shared, so its rates vary within minutes. They are therefore
// measured before and after a benchmark, and a report gives both (docs/performance.md).
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/stream.h"

namespace caption::bench {

struct Roofline {
  double read_bytes_per_s = 0;
  double f32_flops_per_s = 0;  // a multiply-add counts as two
  // The higher rate of f32 and the tier's bf16: the bound for 16-bit weights.
  double flops_per_s = 0;
  std::string_view arithmetic = "f32";  // arithmetic of flops_per_s: "f32" or "bf16"
  // The higher rate of flops_per_s and the tier's 8-bit integers: the bound for 8-bit activations.
  double int8_flops_per_s = 0;
  // The rate of the tier's 8-bit integers, which may be the lower one; 0 if it has none.
  double own_int8_flops_per_s = 0;
  int num_threads = 1;
};

struct RooflineOptions {
  std::int64_t buffer_bytes = 256LL << 20;
  int num_passes = 7;                   // number of passes; the result is their median
  std::int64_t flops_pass_us = 20'000;  // approximate duration of a pass of multiply-adds
};

// Takes well under a second. Uses the stream's thread pool and CPU tier.
Roofline measure_roofline(Stream& stream, const RooflineOptions& options = {});

// The higher of each rate of two measurements of the same threads.
Roofline best_of(const Roofline& a, const Roofline& b);

}  // namespace caption::bench
