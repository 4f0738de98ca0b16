// bench/roofline.h: how fast this machine can read memory and multiply-add, on the threads that an
// engine would use. Every rate that is reported stands beside these.
//
//   bandwidth  a sum over 256 MiB that no cache holds, all threads; the median of a few passes
//   flops      multiply-adds on registers, all threads, in the widest vectors of the CPU tier; in
//              f32, and where the tier has dot products of bf16 (which its kernels use), in those
//
// The host of a virtual machine is shared: its ceilings move by minutes. So they are measured
// before and after, and a report gives both (performance.md §0).
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/stream.h"

namespace caption::bench {

struct Roofline {
  double read_bytes_per_s = 0;
  double f32_flops_per_s = 0;  // a multiply-add counts as two
  // The faster of f32 and the tier's bf16: the ceiling of 16-bit weights.
  double flops_per_s = 0;
  std::string_view arithmetic = "f32";  // of flops_per_s: "f32" or "bf16"
  int num_threads = 1;
};

struct RooflineOptions {
  std::int64_t buffer_bytes = 256LL << 20;
  int num_passes = 7;                   // medians of so many
  std::int64_t flops_pass_us = 20'000;  // how long one pass of multiply-adds takes, about
};

// Well under a second. Uses the stream's pool and tier.
Roofline measure_roofline(Stream& stream, const RooflineOptions& options = {});

}  // namespace caption::bench
