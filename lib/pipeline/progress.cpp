#include "pipeline/progress.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/json.h"
#include "base/log.h"

namespace caption::pipeline {
namespace {

constexpr std::int64_t kLiveIntervalUs = 200'000;
constexpr std::int64_t kSparseIntervalUs = 10'000'000;

// Per second of the run; 0 before the clock has moved.
double rate(std::int64_t count, std::int64_t elapsed_us) {
  return elapsed_us > 0 ? static_cast<double>(count) * 1e6 / static_cast<double>(elapsed_us) : 0;
}

std::string percent(double share) {
  return std::to_string(std::lround(std::clamp(share, 0.0, 1.0) * 100)) + " %";
}

std::string clips(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " clip" : " clips");
}

// What is counted: clips, or captions where each clip has several.
std::string noun_of(const Progress& progress) {
  return progress.num_prompts > 1 ? "caption" : "clip";
}

std::string counted(const Progress& progress, std::int64_t count) {
  return std::to_string(count) + " " + noun_of(progress) + (count == 1 ? "" : "s");
}

}  // namespace

std::string describe_progress(const Progress& progress) {
  std::string out =
      std::to_string(progress.clips_done) + "/" + counted(progress, progress.clips_total);
  if (progress.clips_failed > 0) out += ", " + std::to_string(progress.clips_failed) + " failed";
  out += ", " + json_number(rate(progress.clips_done, progress.elapsed_us), 2) + " " +
         noun_of(progress) + "s/s, ";
  return out + json_number(rate(progress.output_tokens, progress.elapsed_us), 0) + " tokens/s";
}

std::string describe_speed(const Outcome& outcome) {
  const Progress& progress = outcome.progress;
  std::string out = counted(progress, progress.clips_done - progress.clips_failed) +
                    (progress.num_prompts > 1 ? " written" : " captioned");
  if (progress.clips_failed > 0) out += ", " + std::to_string(progress.clips_failed) + " failed";
  if (progress.files_skipped > 0) {
    out += ", " + std::to_string(progress.files_skipped) + " files in folders are no videos";
  }
  out += " in " + json_number(static_cast<double>(progress.elapsed_us) / 1e6, 2) + " s: ";
  out += json_number(rate(progress.clips_done, progress.elapsed_us), 2) + " " + noun_of(progress) +
         "s/s, ";
  out += json_number(rate(progress.output_tokens, progress.elapsed_us), 1) + " output tokens/s, ";
  return out + json_number(outcome.engine.mean_batch, 1) + " sequences per step";
}

std::string describe_busy(const Outcome& outcome, const ThreadPlan& threads) {
  struct Stage {
    const char* name;
    double share;
  };
  const double wall_us =
      static_cast<double>(std::max<std::int64_t>(1, outcome.progress.elapsed_us));
  std::vector<Stage> stages = {
      Stage{"decode", static_cast<double>(outcome.busy.decode_us) / (wall_us * threads.decode)},
      Stage{"vision", static_cast<double>(outcome.busy.vision_us) / wall_us},
      Stage{"engine", static_cast<double>(outcome.busy.engine_us) / wall_us}};
  if (outcome.busy.cache_us > 0) {
    const auto busy_us = static_cast<double>(outcome.busy.cache_us);
    stages.push_back({"cache look-up", busy_us / (wall_us * threads.decode)});
  }
  std::string out = "busy:";
  for (const Stage& stage : stages)
    out += std::string(" ") + stage.name + " " + percent(stage.share);
  const auto limiting =
      std::max_element(stages.begin(), stages.end(),
                       [](const Stage& a, const Stage& b) { return a.share < b.share; });
  return out + "; " + limiting->name + " limits";
}

std::string describe_caches(const Outcome& outcome) {
  const engine::EngineStats& engine = outcome.engine;
  if (engine.prefix_lookup_tokens == 0) return {};
  std::string out = "prefix cache: " + percent(engine.prefix_hit_rate()) + " of prompt tokens hit";
  if (engine.disk_hit_tokens > 0) {
    out += ", " + std::to_string(engine.disk_hit_tokens) + " tokens from disk";
  }
  if (outcome.clips_seen_before > 0) {
    out += "; " + clips(outcome.clips_seen_before) + " seen before, neither decoded nor encoded";
  }
  return out;
}

ProgressLine::~ProgressLine() {
  if (style_ == ProgressStyle::kLive) set_status_line("");
}

void ProgressLine::update(const Progress& progress) {
  if (style_ == ProgressStyle::kSilent) return;
  const std::int64_t interval_us =
      style_ == ProgressStyle::kLive ? kLiveIntervalUs : kSparseIntervalUs;
  if (progress.elapsed_us - last_us_ < interval_us) return;
  last_us_ = progress.elapsed_us;
  if (style_ == ProgressStyle::kLive) {
    set_status_line(describe_progress(progress));
  } else {
    log_info("run", describe_progress(progress));
  }
}

}  // namespace caption::pipeline
