// apps/caption-cli/bench_videos.h: the command `caption-cli bench VIDEO...`, which measures runs
// over real videos, from files to captions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/machine.h"
#include "config/load_preset.h"
#include "plan/price_table.h"

namespace caption::cli {

struct BenchDevice;

// The option whose settings are compared by memory, speed and scores (bench/price_report.h).
enum class PriceOf {
  kNothing,
  kAttention,  // full, topk-merge and squeezed
  kKvCache,    // bf16, f16, int8 and f32 pages
  kDrafts,     // none, n-grams and the archive
  kWeights,    // every format in which this build can hold the model, beside f32
};

inline constexpr std::int64_t kDefaultPricePositions = plan::kLeastPositions;

struct BenchVideos {
  std::vector<std::string> paths;
  // The prompts that each clip answers; empty means the prompt of the preset.
  std::vector<std::string> prompts;
  // JSONL or a folder of label files, for the first prompt's captions; empty: no scores.
  std::string references;
  PriceOf price = PriceOf::kNothing;
  // kWeights: the least number of positions at which logits are compared.
  std::int64_t price_positions = kDefaultPricePositions;
  // kWeights: the model whose f32 weights are the reference, if the preset's model was made of it
  // by rounding; empty: the preset's model itself.
  std::string price_base = {};
  int repeat = 1;
  std::string json;  // path of a file, "-" for stdout, or empty
};

// Returns the exit code: kExitClipsFailed when clips failed. Throws Error as `run` does.
int bench_videos(const BenchVideos& wanted, const BenchDevice& device,
                 const config::LoadedPreset& loaded, const Machine& machine);

}  // namespace caption::cli
