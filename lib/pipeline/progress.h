// pipeline/progress.h: how a run is going, on stderr: one live line on a terminal, sparse lines
// elsewhere, and a summary.
#pragma once

#include <cstdint>
#include <string>

#include "pipeline/pipeline.h"

namespace caption::pipeline {

// "12/100 clips, 1 failed, 0.81 clips/s, 45 tokens/s"
std::string describe_progress(const Progress& progress);

// What was done and how fast; how busy each stage was and which one limited; what the caches gave
// (empty when none was asked).
std::string describe_speed(const Outcome& outcome);
std::string describe_busy(const Outcome& outcome, const ThreadPlan& threads);
std::string describe_caches(const Outcome& outcome);

enum class ProgressStyle { kLive, kSparse, kSilent };

// One thread at a time.
class ProgressLine {
 public:
  explicit ProgressLine(ProgressStyle style) : style_(style) {}
  // Removes the live line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Prints at most five times a second (live) or once in ten seconds (sparse).
  void update(const Progress& progress);

 private:
  ProgressStyle style_;
  std::int64_t last_us_ = 0;
};

}  // namespace caption::pipeline
