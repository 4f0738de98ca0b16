// apps/caption-cli/bench_flags.h: the options of `caption-cli bench`.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench_videos.h"
#include "preset_flags.h"

namespace caption::cli {

enum class WorkloadKind { kStaticVsContinuous, kMixed, kPrefix, kFixed };

// The words of --price.
inline constexpr std::array kPriceChoices = {
    std::pair("attention", PriceOf::kAttention), std::pair("kv", PriceOf::kKvCache),
    std::pair("drafts", PriceOf::kDrafts), std::pair("weights", PriceOf::kWeights)};

struct BenchFlags {
  PresetFlags preset;
  std::vector<std::string> videos;
  std::string references;
  PriceOf price = PriceOf::kNothing;
  std::int64_t price_positions = 0;  // 0: not given
  std::string price_base;
  WorkloadKind workload = WorkloadKind::kFixed;
  std::vector<std::string> workload_options;  // those on the command line: "--clips"
  std::string shape;
  bool kernels = false;
  std::string predict;  // a card's name; empty: measure
  bool tower = false;
  bool loading = false;
  bool profile = false;
  std::int64_t num_requests = 0;  // 0: enough for three full batches
  std::int64_t prompt_tokens = 64;
  std::int64_t output_tokens = 64;
  std::int64_t vision_tokens = 256;
  std::int64_t num_clips = 8;
  std::int64_t prompts_per_clip = 3;
  double length_scale = 1;
  std::vector<std::int32_t> sweep;
  int repeat = 1;
  std::string json;
  std::string svg;
};

// Adds all options except those of the preset.
void add_bench_flags(CLI::App& command, BenchFlags& flags);

// Whether an option of flags.workload_options is on the command line.
bool is_given(const BenchFlags& flags, std::string_view option);

// The passes of --tower and --loading, which are short: three where --repeat does not say.
int num_passes(const BenchFlags& flags);

}  // namespace caption::cli
