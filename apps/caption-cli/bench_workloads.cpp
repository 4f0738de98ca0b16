#include "bench_workloads.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace caption::cli {

bench::Workload make_workload(const BenchFlags& flags, std::int32_t largest_batch,
                              std::uint64_t seed) {
  const std::int64_t requests =
      flags.num_requests > 0 ? flags.num_requests : std::int64_t{3} * largest_batch;
  switch (flags.workload) {
    case WorkloadKind::kStaticVsContinuous:
      return bench::make_uneven_workload(requests, flags.prompt_tokens, flags.length_scale);
    case WorkloadKind::kMixed:
      return bench::make_mixed_workload(
          requests, std::max<std::int64_t>(16, std::llround(512 * flags.length_scale)), seed);
    case WorkloadKind::kPrefix:
      return bench::make_prefix_workload({.num_clips = flags.num_clips,
                                          .prompts_per_clip = flags.prompts_per_clip,
                                          .vision_tokens = flags.vision_tokens,
                                          .prompt_tokens = flags.prompt_tokens,
                                          .output_tokens = flags.output_tokens});
    case WorkloadKind::kFixed: break;
  }
  return bench::make_fixed_workload(requests, flags.prompt_tokens, flags.output_tokens);
}

namespace {

// Returns the variants that a workload compares at one batch size.
std::vector<bench::Variant> make_pair(WorkloadKind workload, const engine::EngineOptions& options) {
  std::vector<bench::Variant> pair;
  const auto add = [&](const char* group, const auto& change) {
    bench::Variant variant{.name = group, .group = group, .options = options};
    change(variant.options);
    pair.push_back(std::move(variant));
  };
  switch (workload) {
    case WorkloadKind::kStaticVsContinuous:
      add("static, padded", [](auto& o) { o.batching = engine::BatchMode::kStatic; });
      pair.back().ended_rows = bench::EndedRows::kPadded;
      add("static", [](auto& o) { o.batching = engine::BatchMode::kStatic; });
      add("continuous", [](auto& o) { o.batching = engine::BatchMode::kContinuous; });
      break;
    case WorkloadKind::kPrefix:
      add("no prefix cache", [](auto& o) { o.prefix_cache = engine::PrefixCache::kOff; });
      add("prefix cache", [](auto& o) { o.prefix_cache = engine::PrefixCache::kOn; });
      break;
    case WorkloadKind::kMixed:
    case WorkloadKind::kFixed:
      add(options.batching == engine::BatchMode::kStatic ? "static" : "continuous", [](auto&) {});
      break;
  }
  return pair;
}

}  // namespace

std::vector<bench::Variant> make_variants(const BenchFlags& flags,
                                          const engine::EngineOptions& options) {
  std::vector<bench::Variant> variants;
  std::vector<std::int32_t> batches = flags.sweep;
  if (batches.empty()) batches = {options.max_num_seqs};
  for (const std::int32_t batch : batches) {
    engine::EngineOptions changed = options;
    changed.max_num_seqs = batch;
    for (bench::Variant& variant : make_pair(flags.workload, changed)) {
      if (!flags.sweep.empty()) variant.name += " " + std::to_string(batch);
      variants.push_back(std::move(variant));
    }
  }
  return variants;
}

}  // namespace caption::cli
