// bench/video_report.h: reports a run over real videos, from files to captions, as a table and
// JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/bench_report.h"
#include "bench/roofline.h"
#include "bench/run_cost.h"
#include "bench/statistics.h"
#include "drafts/drafter.h"
#include "engine/engine.h"

namespace caption::bench {

struct StageBusy {
  std::string name;   // "decode", "vision", "engine"
  double busy_s = 0;  // summed over the stage's workers
  std::int64_t num_workers = 1;
};

struct VideoScore {
  std::string metric;  // "meteor-ko"
  double value = 0;
  double low = 0;  // lower bound of the 95 % interval
  double high = 0;
};

// One run of the pipeline.
struct VideoRun {
  double seconds = 0;
  std::int64_t num_clips = 0;      // clips that were captioned; equal files count once
  std::int64_t num_captions = 0;   // one per captioned clip and prompt
  std::int64_t num_failed = 0;     // clips without the caption of some prompt
  std::int64_t prompt_tokens = 0;  // summed over all captions, vision tokens included
  std::int64_t output_tokens = 0;  // summed over all captions
  Summary first_token_ms;          // per caption, from submission to the engine
  Summary clip_ms;                 // per caption, from the first byte read to the record written
  std::vector<StageBusy> stages;
  engine::EngineStats stats;
  drafts::DraftCounts drafts;
  drafts::DraftedSteps drafted_steps;
  plan::StepCost cost;  // cost of the language model's part
  std::int64_t peak_bytes = 0;

  double clips_per_s() const;  // captioned clips
  double captions_per_s() const;
  double output_tokens_per_s() const;
  double prompt_tokens_per_s() const;
};

struct VideoReport {
  Subject subject;
  std::int64_t max_num_seqs = 0;
  // >= 1 runs; the figures are those of the run of median clips per second.
  std::vector<VideoRun> runs;
  Roofline before;
  Roofline after;
  Operands operands = Operands::k16Bits;  // those of the products with the decoder's weights
  std::vector<VideoScore> scores;  // scores of the last run's captions; empty without references

  const VideoRun& median_run() const;
};

// Returns "2 clips captioned, 1 failed", or "4 captions of 2 clips, 1 clip failed" for several
// prompts.
std::string describe_clips(const VideoRun& run);

std::string to_table(const VideoReport& report);
std::string to_json(const VideoReport& report);  // one JSON object on one line

}  // namespace caption::bench
