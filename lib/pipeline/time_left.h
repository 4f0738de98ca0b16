// pipeline/time_left.h: estimates the time left from the measured times of the stages.
//
// The stages run concurrently on different clips, so the slowest one determines the time:
//   time = max over stages of cost of one clip * clips left / threads of the stage
// The cost is the stage's busy time divided by the clips that have passed it. Costs are measured
// while the other stages compete for the same cores, so that contention needs no separate term.
// Clips that failed, came from a cache or were copied cost little; they lower the mean, as they
// will among the clips to come. Filling and draining the pipeline is not counted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pipeline/pipeline.h"

namespace caption::pipeline {

// Busy time in microseconds.
struct StageCosts {
  double read_us = 0;    // per clip on one decode thread: hashing, lookup, decoding
  double vision_us = 0;  // per clip; divided by the replicas of the model, which share the clips
  double engine_us = 0;  // per caption, likewise
};

// Work left for each stage.
struct WorkLeft {
  double clips_to_read = 0;
  double clips_to_encode = 0;
  double captions = 0;
};

// Evaluates the formula above, in microseconds. `num_decode_threads` >= 1; each takes whole clips,
// so the clips per thread are rounded up.
double time_needed_us(const StageCosts& costs, const WorkLeft& left, int num_decode_threads);

// Estimates the time left of a run; std::nullopt while a stage has not finished a clip, or when
// nothing is left. Clips that were not looked up yet count as clips to be captioned, so the
// estimate for a resumed run is an upper one.
std::optional<double> time_left_us(const Progress& progress);

// Returns text such as "40 s", "3 min", "2 h 05 min"; at least "1 s".
std::string duration_text(double us);

}  // namespace caption::pipeline
