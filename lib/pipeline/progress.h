// pipeline/progress.h: how a run is going, on stderr: one live line on a terminal, sparse lines
// elsewhere, and a summary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "pipeline/pipeline.h"

namespace caption::pipeline {

// "12/100 clips, 1 failed, about 2 min left, 0.81 clips/s, 45 tokens/s". Rates are those of the
// captions that were made, per second of the run; a rate of nothing is left out. ASCII.
std::string describe_progress(const Progress& progress);

// What was done and how fast ("nothing to caption" when no record was written); how busy each stage
// was and which one limited; what the caches gave (empty when none was asked).
std::string describe_speed(const Outcome& outcome);
std::string describe_busy(const Outcome& outcome, const ThreadPlan& threads);
std::string describe_caches(const Outcome& outcome);

enum class ProgressStyle { kLive, kSparse, kSilent };

// The beginning of an ASCII line that takes at most `columns` columns, cut at a comma if it has one
// there.
std::string fit_to_width(const std::string& line, std::size_t columns);

// A live line on a terminal that can redraw it; sparse lines on another, which `term` ($TERM, may
// be null) calls dumb or does not name, and elsewhere.
ProgressStyle choose_progress_style(bool is_terminal, const char* term);

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
