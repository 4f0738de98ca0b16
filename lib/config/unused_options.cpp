#include "config/unused_options.h"

#include <algorithm>
#include <iterator>

#include "config/internal/idle_options.h"
#include "config/preset_blueprint.h"
#include "config/run_planner.h"

namespace caption::config {
namespace {

using Condition = bool (*)(const Preset& preset, const RunFacts& facts);

bool is_on_host(const Preset& /*preset*/, const RunFacts& facts) { return !facts.device.is_cuda(); }
bool shares_no_pages(const Preset& preset, const RunFacts& /*facts*/) {
  return !preset.engine.prefix_cache;
}
bool keeps_no_files(const Preset& preset, const RunFacts& /*facts*/) {
  return preset.engine.kv_cache_dir.empty();
}
bool has_beams_and_drafts(const Preset& preset, const RunFacts& /*facts*/) {
  return preset.generation.num_beams > 1 && preset.speculative.method != DraftMethod::kNone;
}
bool drops_logprobs(const Preset& preset, const RunFacts& facts) {
  return preset.generation.num_logprobs >= 0 && !facts.is_jsonl;
}
bool has_given_pages(const Preset& preset, const RunFacts& /*facts*/) {
  return preset.engine.kv_cache_bytes > 0;
}
bool rounds_no_codes(const Preset& preset, const RunFacts& facts) {
  return preset.quantization.requantize && !facts.rounds_codes;
}

// An option whose effect depends on more than captions: when it has none, and the words for it.
struct Unused {
  const char* key;
  Condition is_unused;
  const char* when;
};
constexpr const char* kNoRounding =
    "with this --model and --dtype, which round no codes a second time";
constexpr Unused kUnused[] = {
    {"generation.num_logprobs", drops_logprobs, "in records of csv and txt"},
    {"speculative.method", has_beams_and_drafts, "on beams"},
    {"engine.kv_host_bytes", is_on_host, "with --device cpu"},
    {"engine.kv_host_bytes", shares_no_pages, "with --prefix-cache false"},
    {"engine.kv_cache_dir_bytes", keeps_no_files, "without --kv-cache-dir"},
    {"device.memory_utilization", has_given_pages,
     "on the KV pages, whose size --kv-cache-bytes gives"},
    {"quantization.requantize", rounds_no_codes, kNoRounding},
};

}  // namespace

bool rounds_codes(const Preset& preset, const Locations& locations) {
  QuantizationSection quantization = preset.quantization;
  quantization.requantize = false;
  const model::Blueprint blueprint = find_preset_blueprint(preset.model, locations).blueprint;
  return find_rounded_codes(quantization, blueprint).has_value();
}

std::vector<std::string> describe_unused(const Preset& preset, std::span<const Override> flags,
                                         const RunFacts& facts) {
  std::vector<std::string> lines;
  for (const Override& flag : flags) {
    const char* when = idle_reason(flag.key, preset);
    const auto* const unused = std::find_if(
        std::begin(kUnused), std::end(kUnused),
        [&](const Unused& rule) { return rule.key == flag.key && rule.is_unused(preset, facts); });
    if (unused != std::end(kUnused)) when = unused->when;
    if (when != nullptr) lines.push_back(flag.source + " has no effect " + when);
  }
  return lines;
}

}  // namespace caption::config
