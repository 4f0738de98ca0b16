// bench/price_report.h: what an option of the engine costs and saves on the same videos: memory,
// speed and scores, each beside the first row's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/video_report.h"

namespace caption::bench {

struct PriceRow {
  std::string name;                 // "bf16 KV", "topk-merge, 70 tokens kept"
  std::vector<VideoRun> runs = {};  // >= 1; the figures are of the run of median engine speed
  std::vector<VideoScore> scores = {};

  const VideoRun& median_run() const;
  // Output tokens per second of the engine's time: decoding and vision are the same in all rows.
  double engine_tokens_per_s() const;
  // Pages in use, and what compressed attention holds beside them, per running sequence.
  std::int64_t kv_bytes_per_sequence() const;
};

struct PriceReport {
  Subject subject;
  std::vector<PriceRow> rows;  // the first is what the others are compared with
};

std::string to_table(const PriceReport& report);
std::string to_json(const PriceReport& report);  // one object, a line of its own

}  // namespace caption::bench
