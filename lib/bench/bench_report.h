// bench/bench_report.h: writes a comparison as a table, as JSON, and as a chart of throughput over
// batch size. Rates are given together with the machine's rates measured in the same minutes.
#pragma once

#include <string>

#include "bench/line_chart.h"
#include "bench/run_workload.h"

namespace caption::bench {

// Description of what was measured, for headings: "qwen3-0.6b, bf16, KV bf16, 2 threads, avx512".
struct Subject {
  std::string model;
  std::string setting;
};

// One column per variant and one row per figure; ratios are relative to the first variant.
std::string to_table(const Subject& subject, const Comparison& comparison);

// Returns one JSON object on one line with all runs of all variants.
std::string to_json(const Subject& subject, const Comparison& comparison);

// One line per group of variants over max_num_seqs, and the bound given by bandwidth and arithmetic
// for the last group's work, unless that work stayed in the caches.
LineChart throughput_chart(const Subject& subject, const Comparison& comparison);

}  // namespace caption::bench
