// pipeline/progress.h: how a run is going, on stderr: one live line on a terminal, sparse lines
// elsewhere, and a summary.
#pragma once

#include <cstdint>
#include <string>

#include "pipeline/pipeline.h"

namespace caption::pipeline {

// "12/100 clips, 1 failed, 2 suspicious, about 2 min left, 0.81 clips/s, 45 tokens/s". Clips that
// had their records before count among both numbers, and so do files that are no videos. Rates are
// those of the captions that were made, per second of the run; a rate of nothing is left out.
// ASCII.
std::string describe_progress(const Progress& progress);

// The same in at most `columns` columns of a terminal (base/display_width.h), with the clip whose
// record was written last, shortened to what is left. What does not fit is left out whole, from the
// least important: the number of clips and the time left stay longest. One line whatever the clip's
// name holds; empty when not even the number of clips fits.
std::string live_line(const Progress& progress, int columns);

// What was done and how fast ("nothing to caption" when no caption was wanted); how busy each stage
// was and which one limited; what the caches gave (empty when none was asked).
std::string describe_speed(const Outcome& outcome);
std::string describe_busy(const Outcome& outcome, const ThreadPlan& threads);
std::string describe_caches(const Outcome& outcome);

// "2 captions are suspicious: each record says why"; "1 caption is truncated: --max-new-tokens
// allows longer ones". Empty when none is.
std::string describe_suspicious(const Progress& progress);
std::string describe_truncated(const Progress& progress);

// "2 records have warnings (damaged, cut-off or short films)". Empty when none has.
std::string describe_warned(const Progress& progress);
// "interrupted; 3 of 10 records written"
std::string describe_interruption(const Progress& progress);

enum class ProgressStyle { kLive, kSparse, kSilent };

// A live line on a terminal that can redraw it; sparse lines on another, which `term` ($TERM, may
// be null) calls dumb or does not name, and elsewhere.
ProgressStyle choose_progress_style(bool is_terminal, const char* term);

// Whether a line is to be printed now, given when the last one was (at the begin: 0, 0): a live one
// after 0.2 s; a sparse one after 10 s in which a tenth of the clips was passed, else after 60 s.
struct ShownProgress {
  std::int64_t elapsed_us = 0;
  std::int64_t num_passed = 0;
};
bool is_line_due(ProgressStyle style, const ShownProgress& last, const Progress& now);

// One thread at a time.
class ProgressLine {
 public:
  explicit ProgressLine(ProgressStyle style) : style_(style) {}
  // Removes the live line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Prints when a line is due. A live one takes the width that the terminal has now.
  void update(const Progress& progress);

 private:
  ProgressStyle style_;
  ShownProgress last_ = {};
};

}  // namespace caption::pipeline
