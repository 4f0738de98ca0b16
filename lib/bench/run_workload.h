// bench/run_workload.h: runs one workload through several engines for comparison.
//
// Variants differ in the engine's options. They run alternately, A B C A B C ..., each time with a
// new engine (empty caches), so that a drift of the machine's speed affects all of them. The
// figures of a variant are those of its run with the median throughput.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/stream.h"
#include "base/default_seed.h"
#include "base/hash.h"
#include "bench/profile_report.h"
#include "bench/roofline.h"
#include "bench/run_cost.h"
#include "bench/statistics.h"
#include "bench/workload.h"
#include "engine/engine.h"
#include "model/decoder.h"

namespace caption::bench {

// What a static batch does with finished rows while longer rows run.
enum class EndedRows {
  kLeave,  // they leave the step: the engine's static mode
  // Finished rows stay in the batch and their tokens are discarded: static batching as in
  // generate() of transformers. Measured by requesting the longest output of each batch for all its
  // rows; only tokens that the workload requests are counted.
  kPadded,
};

struct Variant {
  std::string name;  // "continuous, 8"
  // Such as "continuous": variants that differ only in max_num_seqs; one line in a chart.
  std::string group;
  engine::EngineOptions options;
  EndedRows ended_rows = EndedRows::kLeave;
};

// One run of a workload.
struct Measurement {
  double seconds = 0;      // from the first submission to the last token
  Summary first_token_ms;  // from submission (all requests are submitted at once)
  Summary next_token_ms;   // mean time per later token of a request
  Summary latency_ms;
  std::int64_t num_requests = 0;
  std::int64_t prompt_tokens = 0;  // includes vision tokens and tokens found in the cache
  std::int64_t output_tokens = 0;
  std::int64_t num_cut_short = 0;  // requests that failed or ended before their length
  std::int64_t peak_bytes = 0;     // bench::peak_bytes() after the run
  std::int64_t needed_bytes = 0;   // part of peak_bytes: decoder weights and pages in use
  engine::EngineStats stats;
  std::vector<OperationTime> operations;  // operations inside steps, if requested
  plan::StepCost cost;                    // minimum arithmetic and traffic of the run
  Hash128 output_hash;                    // hash of all outputs in the order of submission

  double output_tokens_per_s() const;
  double prompt_tokens_per_s() const;
  double requests_per_s() const;
};

struct VariantResult {
  Variant variant;
  std::vector<Measurement> runs;  // in the order of execution
  std::size_t median_run = 0;     // index of the run with the median output tokens per second

  const Measurement& measurement() const { return runs[median_run]; }
};

struct Comparison {
  Workload workload;
  DecoderCosts costs;
  std::vector<VariantResult> variants;
  Roofline before;  // rates of the machine on the same threads
  Roofline after;

  // Means of the rates before and after; that of arithmetic for products with the weights.
  double read_bytes_per_s() const;
  Peak peak() const;
  // Whether the outputs of all runs of all variants are identical.
  bool outputs_are_equal() const;
};

struct CompareOptions {
  int repeat = 1;                     // runs of each variant, >= 1
  std::uint64_t seed = kDefaultSeed;  // seed of the random content of the requests
  bool has_profile = false;  // also times each operation, which reads the clock twice per kernel
  RooflineOptions roofline = {};
  // Called before each run: "continuous, run 1 of 3". May be empty.
  std::function<void(const std::string&)> on_run;
};

// Throws Error(kUsage) for a workload that does not fit the model, and any error of the engine.
Comparison compare(model::Decoder& decoder, Stream& stream, const DecoderCosts& costs,
                   const Workload& workload, const std::vector<Variant>& variants,
                   const CompareOptions& options);

}  // namespace caption::bench
