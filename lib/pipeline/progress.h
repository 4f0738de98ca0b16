// pipeline/progress.h: progress of a run on stderr: one live line on a terminal, occasional lines
// elsewhere, and a summary at the end.
#pragma once

#include <cstdint>
#include <string>

#include "pipeline/pipeline.h"

namespace caption::pipeline {

// Returns text such as "12/100 clips, 1 failed, 2 suspicious, about 2 min left, 0.81 clips/s, 45
// tokens/s". Both clip counts include clips that already had records; the second one also files in
// folders until they turn out not to be videos. Rates count the captions made by this run per
// second of the run; zero rates are left out. ASCII.
std::string describe_progress(const Progress& progress);

// The same in at most `columns` terminal columns (base/display_width.h), followed by the clip of
// the last record, shortened to the remaining width. Parts that do not fit are left out, least
// important first; the number of clips and the time left are dropped last. The result is a single
// line for every clip name; empty when not even the number of clips fits.
std::string live_line(const Progress& progress, int columns);

// Summaries: what was done and how fast ("nothing to caption" when no caption was needed); how busy
// each stage was and which one was the bottleneck; cache hits (empty when no cache was used).
std::string describe_speed(const Outcome& outcome);
std::string describe_busy(const Outcome& outcome, const ThreadPlan& threads);
std::string describe_caches(const Outcome& outcome);
// How many tokens a step made for a caption, how many drafts of each source were right, which share
// of the steps had any, and the time that they saved or cost; when none was computed, why, and how
// far a search for the layers of self-drafts is. Empty without drafts.
std::string describe_drafts(const Outcome& outcome);

// Return text such as "2 captions are suspicious: each record says why" and "1 caption is
// truncated: --max-new-tokens allows longer ones"; empty when the count is 0.
std::string describe_suspicious(const Progress& progress);
std::string describe_truncated(const Progress& progress);

// Returns "2 records have warnings; the last one: a.mp4: 1 damaged packet or frame"; empty when the
// count is 0.
std::string describe_warned(const Progress& progress);
// Returns text such as "interrupted; 3 of 10 records written".
std::string describe_interruption(const Progress& progress);
// The same for a run whose standard output nobody reads any more.
std::string describe_reader_gone(const Progress& progress);

enum class ProgressStyle { kLive, kSparse, kSilent };

// kLive on a terminal that can redraw a line; kSparse elsewhere and on a terminal whose `term`
// ($TERM, may be null) is "dumb" or not set.
ProgressStyle choose_progress_style(bool is_terminal, const char* term);

// Whether a line is due, given when the last one was printed (initially 0, 0): a live line after
// 0.2 s; a sparse line after 10 s if a tenth of the clips has been passed, otherwise after 60 s.
struct ShownProgress {
  std::int64_t elapsed_us = 0;
  std::int64_t num_passed = 0;
};
bool is_line_due(ProgressStyle style, const ShownProgress& last, const Progress& now);

// Not thread-safe.
class ProgressLine {
 public:
  explicit ProgressLine(ProgressStyle style) : style_(style) {}
  // Removes the live line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Prints when a line is due. A live line uses the terminal's current width.
  void update(const Progress& progress);

 private:
  ProgressStyle style_;
  ShownProgress last_ = {};
};

}  // namespace caption::pipeline
