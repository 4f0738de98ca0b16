// bench/price_report.h: compares options of the engine on the same videos by memory, speed and
// scores, each relative to the first row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/video_report.h"

namespace caption::bench {

struct PriceRow {
  std::string name;  // "bf16 KV", "topk-merge, 70 tokens kept"
  // >= 1 runs; the figures are those of the run with the median engine speed.
  std::vector<VideoRun> runs = {};
  std::vector<VideoScore> scores = {};

  const VideoRun& median_run() const;
  // Output tokens per second of engine time only, since decoding and vision are the same in all
  // rows.
  double engine_tokens_per_s() const;
  // KV pages in use plus the memory of compressed attention, per running sequence.
  std::int64_t kv_bytes_per_sequence() const;
};

struct PriceReport {
  Subject subject;
  std::vector<PriceRow> rows;  // the first row is the reference
};

std::string to_table(const PriceReport& report);
std::string to_json(const PriceReport& report);  // one JSON object on one line

}  // namespace caption::bench
