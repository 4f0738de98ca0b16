// bench/bench_report.h: a comparison as a table, as JSON, and as a chart of throughput over batch
// size. Every rate stands beside what the machine could do in the same minutes.
#pragma once

#include <string>

#include "bench/line_chart.h"
#include "bench/run_workload.h"

namespace caption::bench {

// What was measured, for headings: "qwen3-0.6b, bf16, KV bf16, 2 threads, avx512".
struct Subject {
  std::string model;
  std::string setting;
};

// A column for each variant, a row for each figure; ratios to the first variant.
std::string to_table(const Subject& subject, const Comparison& comparison);

// One object, a line of its own: all runs of all variants.
std::string to_json(const Subject& subject, const Comparison& comparison);

// A line for each group of variants over max_num_seqs, and the bound that bandwidth and arithmetic
// set to the last group's work, unless that work stayed in the caches.
LineChart throughput_chart(const Subject& subject, const Comparison& comparison);

}  // namespace caption::bench
