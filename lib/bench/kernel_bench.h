// bench/kernel_bench.h: each operation of a model's shape by itself, beside what the machine can
// do in the same minutes.
//
// Text: the matrices of a decoder's layer and its LM head in every layout that kernels have
// (kernels/packed_weight.h), attention over pages, and what lies between. Vision: patch embedding,
// the matrices of a layer and attention of one image. Values are random; operands that a step reads
// from memory are read from memory: copies are gone through in turn, more than a cache holds.
//
// Counted is what every implementation must do and move:
//   bytes  operands read once and results written once, activations included; these may stay in
//          the caches, so a share of the bandwidth can exceed 1
//   FLOPs  linear: 2 M N K, linear_swiglu: twice that; attention: 4 heads head_dim attended keys;
//          rms_norm, layer_norm: 4 and 7 an element; rope: 3; others: none
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/stream.h"
#include "bench/roofline.h"
#include "model/model_shape.h"

namespace caption::bench {

struct KernelRow {
  std::string operation;    // "linear down", "attention, decoding"
  std::string setting;      // "int8", "bf16 KV, batch 16 of 512"
  std::int64_t tokens = 0;  // rows of activations, M
  double bytes = 0;         // of one call, as are the next two
  double flops = 0;
  double seconds = 0;  // the median of the rounds

  double bytes_per_s() const { return seconds > 0 ? bytes / seconds : 0; }
  double flops_per_s() const { return seconds > 0 ? flops / seconds : 0; }
};

struct KernelBenchOptions {
  std::vector<std::int64_t> tokens = {1, 4, 16, 64, 512};  // M of linear layers, all >= 1
  std::vector<std::int64_t> batches = {1, 16};             // sequences in decoding
  std::int64_t context_tokens = 512;                       // of each; and of a prompt
  std::int64_t working_set_bytes = 64LL << 20;  // that copies of an operand take together, at least
  int num_rounds = 5;
  std::int64_t round_us = 10'000;  // a round is so many calls as take this long
  RooflineOptions roofline = {};
  // Called after each row. May be empty.
  std::function<void(const KernelRow&)> on_row;
};

struct KernelBench {
  std::vector<KernelRow> rows;
  Roofline before;
  Roofline after;

  // Means of the two.
  double read_bytes_per_s() const { return (before.read_bytes_per_s + after.read_bytes_per_s) / 2; }
  double flops_per_s() const { return (before.flops_per_s + after.flops_per_s) / 2; }
};

// Throws Error(kUsage) for a shape with neither decoder nor tower.
KernelBench bench_kernels(Stream& stream, const model::ModelShape& shape,
                          const KernelBenchOptions& options);

// A line for each row; `subject` is the heading.
std::string to_table(const std::string& subject, const KernelBench& bench);
// One object, a line of its own.
std::string to_json(const std::string& subject, const KernelBench& bench);

}  // namespace caption::bench
