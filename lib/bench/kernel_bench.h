// bench/kernel_bench.h: times each operation of a model's shape separately, together with the
// machine's rates in the same minutes.
//
// Text: the matrices of a decoder layer and its LM head in every weight format, attention over
// pages, and the element-wise operations. Vision: patch embedding, the matrices of a layer and
// attention of one image. Values are random. Operands that a step reads from memory are read from
// memory here too: the calls rotate through copies that together exceed the caches.
//
// The counts are the minimum of any implementation:
//   bytes  operands read once and results written once, activations included; activations may stay
//          in the caches, so the share of the bandwidth can exceed 1
//   FLOPs  linear: 2 M N K, linear_swiglu: twice that; attention: 4 heads head_dim attended keys;
//          rms_norm, layer_norm: 4 and 7 per element; rope: 3 per element; others: none
// The share of the peak is that of the machine's rate for products of the row's operands
// (bench/roofline.h); element-wise operations are of f32.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/stream.h"
#include "bench/roofline.h"
#include "model/blueprint.h"

namespace caption::bench {

struct KernelRow {
  std::string operation;    // "linear down", "attention, decoding"
  std::string setting;      // "int8", "bf16 KV, batch 16 of 512"
  std::int64_t tokens = 0;  // rows of activations, M
  double bytes = 0;         // per call, like flops and seconds
  double flops = 0;
  Operands operands = Operands::kF32;  // those of its products
  double seconds = 0;                  // median of the rounds

  double bytes_per_s() const { return seconds > 0 ? bytes / seconds : 0; }
  double flops_per_s() const { return seconds > 0 ? flops / seconds : 0; }
};

struct KernelBenchOptions {
  std::vector<std::int64_t> tokens = {1, 4, 16, 64, 512};  // M of linear layers, all >= 1
  std::vector<std::int64_t> batches = {1, 16};             // sequences per decoding step
  std::int64_t context_tokens = 512;            // context of each sequence and length of a prompt
  std::int64_t working_set_bytes = 64LL << 20;  // minimum total size of the copies of one operand
  int num_rounds = 5;
  std::int64_t round_us = 10'000;  // duration of a round of calls
  RooflineOptions roofline = {};
  // Called after each row. May be empty.
  std::function<void(const KernelRow&)> on_row;
};

struct KernelBench {
  std::vector<KernelRow> rows;
  Roofline before;
  Roofline after;
  std::string left_out = {};  // what of the shape is not measured, and why; empty: nothing

  // Means of the rates before and after the benchmark.
  double read_bytes_per_s() const { return (before.read_bytes_per_s + after.read_bytes_per_s) / 2; }
  Peak peak(Operands operands) const { return mean_peak(before, after, operands); }
};

// Measures the decoder, and the tower if it takes single frames of a fixed size. Throws
// Error(kUsage) for a shape with neither decoder nor tower, Error(kUnavailable) for one without a
// decoder whose tower takes other frames.
KernelBench bench_kernels(Stream& stream, const model::Blueprint& shape,
                          const KernelBenchOptions& options);

// One line per row; `subject` is the heading.
std::string to_table(const std::string& subject, const KernelBench& bench);
// Returns one JSON object on one line.
std::string to_json(const std::string& subject, const KernelBench& bench);

}  // namespace caption::bench
