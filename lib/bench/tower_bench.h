// bench/tower_bench.h: frames per second of a vision tower, beside what the machine can do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/stream.h"
#include "bench/profile_report.h"
#include "bench/roofline.h"
#include "model/caption_model.h"
#include "model/model_shape.h"

namespace caption::bench {

struct TowerBenchOptions {
  std::int64_t num_frames = 2;  // encoded together
  int repeat = 3;               // the median counts; >= 1
  std::uint64_t seed = 20;
  RooflineOptions roofline = {};
};

struct TowerBench {
  std::int64_t num_frames = 0;
  std::int64_t weight_bytes = 0;
  double flops_per_frame = 0;             // of the matrices and of attention
  double seconds = 0;                     // of all frames, the median
  std::vector<OperationTime> operations;  // of one more run that is timed operation by operation
  Roofline before;
  Roofline after;

  double frames_per_s() const {
    return seconds > 0 ? static_cast<double>(num_frames) / seconds : 0;
  }
  double flops_per_s() const { return frames_per_s() * flops_per_frame; }
  double share_of_peak() const {
    return 2 * flops_per_s() / (before.flops_per_s + after.flops_per_s);
  }
};

// Random weights and pixels; pixels to hidden states, without a projector. Throws as RandomTower.
TowerBench bench_tower(Stream& stream, const model::VisionShape& shape, model::WeightType type,
                       const TowerBenchOptions& options);

std::string to_table(const std::string& subject, const TowerBench& bench);
// One object, a line of its own.
std::string to_json(const std::string& subject, const TowerBench& bench);

}  // namespace caption::bench
