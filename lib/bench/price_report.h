// bench/price_report.h: compares options of the engine on the same videos by memory, speed and
// scores, each relative to the first row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/draft_replay.h"
#include "bench/logit_price.h"
#include "bench/video_report.h"

namespace caption::bench {

// The score of a row minus that of the first row, on the same clips.
struct ScoreDifference {
  double value = 0;
  double low = 0;  // lower bound of the 95 % interval, a paired bootstrap over the clips
  double high = 0;
};

// How many captions are those of the first row, character for character.
struct EqualCaptions {
  std::int64_t equal = 0;
  std::int64_t all = 0;  // captions that both rows have
};

struct PriceRow {
  std::string name;  // "bf16 KV", "topk-merge, 70 tokens kept"
  // >= 1 runs; the figures are those of the run with the median engine speed.
  std::vector<VideoRun> runs = {};
  std::vector<VideoScore> scores = {};
  std::vector<ScoreDifference> differences = {};  // one for each score; empty in the first row
  EqualCaptions captions = {};
  std::optional<std::int64_t> weight_bytes = {};  // if rows differ in the format of the weights
  // The engine's speed in turns with the first row's, for the same requests: then the row's speeds
  // and their ratios are those of these rounds, and not of the runs.
  std::optional<ReplayedRow> replayed = {};
  // Next-token distributions beside those of the first row, on the same tokens.
  std::optional<LogitPrice> logits = {};

  const VideoRun& median_run() const;
  // Output tokens per second of engine time only, since decoding and vision are the same in all
  // rows.
  double engine_tokens_per_s() const;
  // Tokens per second of the steps that compute no prompts.
  double decode_tokens_per_s() const;
  // These speeds relative to those of `base`; without `replayed`, low and high are the median.
  MedianInterval engine_ratio(const PriceRow& base) const;
  MedianInterval decode_ratio(const PriceRow& base) const;
  // Tokens of a caption per step of decoding: 1 without drafts.
  double tokens_per_step() const;
  std::int64_t sequence_steps() const;  // that gave a token of a caption, at least 1
  // KV pages in use plus the memory of compressed attention, per running sequence.
  std::int64_t kv_bytes_per_sequence() const;
};

struct PriceReport {
  Subject subject;
  std::vector<PriceRow> rows;    // the first row is the reference
  std::string price_table = {};  // path of the table that was written; empty: none
};

std::string to_table(const PriceReport& report);
std::string to_json(const PriceReport& report);  // one JSON object on one line

}  // namespace caption::bench
