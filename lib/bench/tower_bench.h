// bench/tower_bench.h: measures a vision tower in frames per second, with the machine's rates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/stream.h"
#include "base/default_seed.h"
#include "bench/profile_report.h"
#include "bench/roofline.h"
#include "model/blueprint.h"
#include "model/caption_model.h"

namespace caption::bench {

struct TowerBenchOptions {
  std::int64_t num_frames = 2;  // encoded together
  // For towers that take frames of any size: the video's frames, and the decoder's hidden size.
  model::FrameSize frame = {.width_px = 640, .height_px = 352};
  std::int64_t out = 0;
  int repeat = 3;  // number of runs, >= 1; the result is their median
  std::uint64_t seed = kDefaultSeed;
  RooflineOptions roofline = {};
};

struct TowerBench {
  std::int64_t num_frames = 0;
  std::int64_t weight_bytes = 0;
  std::int64_t width_px = 0;  // size of the frames after resizing
  std::int64_t height_px = 0;
  double flops_per_frame = 0;             // FLOPs of the matrices and of attention
  Operands operands = Operands::k16Bits;  // those of the products with the weights
  double seconds = 0;                     // time for all frames, median
  std::vector<OperationTime> operations;  // profile of one additional run
  Roofline before;
  Roofline after;

  double frames_per_s() const {
    return seconds > 0 ? static_cast<double>(num_frames) / seconds : 0;
  }
  double flops_per_s() const { return frames_per_s() * flops_per_frame; }
  double share_of_peak() const {
    return flops_per_s() / mean_peak(before, after, operands).flops_per_s;
  }
};

// Uses random weights and pixels. Ends at the hidden states, before the projector; for a tower that
// takes frames of any size at the vision tokens. Throws as RandomTower.
TowerBench bench_tower(Stream& stream, const model::VisionSpec& shape, weights::WeightFormat type,
                       const TowerBenchOptions& options);

std::string to_table(const std::string& subject, const TowerBench& bench);
// Returns one JSON object on one line.
std::string to_json(const std::string& subject, const TowerBench& bench);

}  // namespace caption::bench
