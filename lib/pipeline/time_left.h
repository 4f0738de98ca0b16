// pipeline/time_left.h: how long a run will take, from what its stages were measured to take.
//
// The stages work side by side on different clips, so the slowest decides:
//   time = max over stages of (cost of one clip in the stage) x (clips it has still to do) /
//   threads
// where a cost is the stage's busy time over the clips that went through it. Costs are measured
// while the other stages compete for the same cores, so that needs no term of its own. Clips that
// failed, came from a cache or were copies went through at little cost: they lower the mean, as
// such clips will among those to come. Filling and emptying the pipeline is not counted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pipeline/pipeline.h"

namespace caption::pipeline {

// Busy microseconds.
struct StageCosts {
  double read_us = 0;    // of one clip, on one decode thread: hashing, looking up, decoding
  double vision_us = 0;  // of one clip
  double engine_us = 0;  // of one caption
};

// What each stage has still to do.
struct WorkLeft {
  double clips_to_read = 0;
  double clips_to_encode = 0;
  double captions = 0;
};

// The formula above, in microseconds; `num_decode_threads` >= 1 take whole clips.
double time_needed_us(const StageCosts& costs, const WorkLeft& left, int num_decode_threads);

// Of a run that is under way; nothing while a stage has not finished a clip, or when all is done.
// Clips that were not looked at yet count as to be captioned, so that a resumed run takes no longer
// than this.
std::optional<double> time_left_us(const Progress& progress);

// "40 s", "3 min", "2 h 05 min"; at least "1 s".
std::string duration_text(double us);

}  // namespace caption::pipeline
