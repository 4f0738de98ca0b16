// bench/run_workload.h: one workload through several engines, side by side.
//
// Variants differ in the engine's options. They are run in turn, A B C A B C ..., each time with a
// new engine (cold caches), so that a machine that drifts drifts for all of them; the figures of a
// variant are those of its run of median throughput.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/stream.h"
#include "base/hash.h"
#include "bench/profile_report.h"
#include "bench/roofline.h"
#include "bench/run_cost.h"
#include "bench/statistics.h"
#include "bench/workload.h"
#include "engine/engine.h"
#include "model/decoder.h"

namespace caption::bench {

// What a static batch does with rows whose request has ended before the longest of the batch.
enum class EndedRows {
  kLeave,  // they leave the step: the engine's own static mode
  // They are computed on, and what they say is thrown away: static batching as generate() of
  // transformers does it. Measured by asking for the longest output of each batch; only tokens that
  // the workload wants are counted.
  kPadded,
};

struct Variant {
  std::string name;   // "continuous, 8"
  std::string group;  // "continuous": those that differ in max_num_seqs alone; a line in a chart
  engine::EngineOptions options;
  EndedRows ended_rows = EndedRows::kLeave;
};

// One run of a workload.
struct Measurement {
  double seconds = 0;      // from the first submission to the last token
  Summary first_token_ms;  // from submission (all requests are submitted at once)
  Summary next_token_ms;   // per request: its later tokens' mean time
  Summary latency_ms;
  std::int64_t num_requests = 0;
  std::int64_t prompt_tokens = 0;  // vision tokens included, found in the cache or not
  std::int64_t output_tokens = 0;
  std::int64_t num_cut_short = 0;  // requests that failed or ended before their length
  std::int64_t peak_bytes = 0;     // most that the process held during the run
  std::int64_t needed_bytes = 0;   // of these, weights of the decoder and pages that were in use
  engine::EngineStats stats;
  std::vector<OperationTime> operations;  // of the time in steps, where it was asked for
  StepCost cost;        // arithmetic and traffic that the run could not do without
  Hash128 output_hash;  // of all outputs, in the order of submission

  double output_tokens_per_s() const;
  double prompt_tokens_per_s() const;
  double requests_per_s() const;
};

struct VariantResult {
  Variant variant;
  std::vector<Measurement> runs;  // in the order they were made
  std::size_t median_run = 0;     // of output tokens per second

  const Measurement& measurement() const { return runs[median_run]; }
};

struct Comparison {
  Workload workload;
  DecoderCosts costs;
  std::vector<VariantResult> variants;
  Roofline before;  // of the machine, on the same threads
  Roofline after;

  // Means of the two; arithmetic in f32 for f32 weights, else the fastest there is.
  double read_bytes_per_s() const;
  double flops_per_s() const;
  // Bit for bit, in all runs of all variants.
  bool outputs_are_equal() const;
};

struct CompareOptions {
  int repeat = 1;            // runs of each variant, >= 1
  std::uint64_t seed = 20;   // of what the requests say
  bool has_profile = false;  // also times each operation: a clock is read twice for every kernel
  RooflineOptions roofline = {};
  // Called before each run: "continuous, run 1 of 3". May be empty.
  std::function<void(const std::string&)> on_run;
};

// Throws what the engine throws; Error(kUsage) for a workload that the model cannot hold.
Comparison compare(model::Decoder& decoder, Stream& stream, const DecoderCosts& costs,
                   const Workload& workload, const std::vector<Variant>& variants,
                   const CompareOptions& options);

}  // namespace caption::bench
