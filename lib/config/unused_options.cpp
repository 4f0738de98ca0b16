#include "config/unused_options.h"

#include <algorithm>
#include <iterator>

#include "config/resources.h"
#include "model/model_files.h"

namespace caption::config {
namespace {

using Condition = bool (*)(const Preset& preset, const RunFacts& facts);

bool is_greedy(const Preset& preset, const RunFacts& /*facts*/) {
  return preset.generation.temperature == 0;
}
bool has_one_beam(const Preset& preset, const RunFacts& /*facts*/) {
  return preset.generation.num_beams == 1;
}
bool merges_nothing(const Preset& preset, const RunFacts& /*facts*/) {
  return preset.engine.attention != CompressionMode::kTopkMerge;
}
bool squeezes_nothing(const Preset& preset, const RunFacts& /*facts*/) {
  return preset.engine.attention != CompressionMode::kSqueezed;
}
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
bool rounds_no_codes(const Preset& preset, const RunFacts& facts) {
  return preset.quantization.requantize && !facts.has_codes;
}

// An option, when it has no effect, and the words for it.
struct Unused {
  const char* key;
  Condition is_unused;
  const char* when;
};
constexpr const char* kGreedy = "at --temperature 0";
constexpr const char* kOneBeam = "with --num-beams 1";
constexpr Unused kUnused[] = {
    {"generation.top_p", is_greedy, kGreedy},
    {"generation.top_k", is_greedy, kGreedy},
    {"generation.seed", is_greedy, kGreedy},
    {"generation.length_penalty", has_one_beam, kOneBeam},
    {"generation.early_stopping", has_one_beam, kOneBeam},
    {"generation.num_logprobs", drops_logprobs, "in records of csv and txt"},
    {"speculative.method", has_beams_and_drafts, "on beams"},
    {"engine.attention_keep_tokens", merges_nothing, "without --attention topk-merge"},
    {"engine.attention_threshold", squeezes_nothing, "without --attention squeezed"},
    {"engine.kv_host_bytes", is_on_host, "with --device cpu"},
    {"engine.kv_host_bytes", shares_no_pages, "with --prefix-cache false"},
    {"engine.kv_cache_dir_bytes", keeps_no_files, "without --kv-cache-dir"},
    {"quantization.requantize", rounds_no_codes, "with this --model, whose weights are no codes"},
};

}  // namespace

bool holds_codes(const ModelSection& model, const Locations& locations) {
  std::vector<std::string> names = {model.path};
  if (model.is_composed) names = {model.llm, model.vision};
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return !model::read_model_files(find_model(name, locations)).quantisation.empty();
  });
}

std::vector<std::string> describe_unused(const Preset& preset, std::span<const Override> flags,
                                         const RunFacts& facts) {
  std::vector<std::string> lines;
  for (const Override& flag : flags) {
    const auto* const unused = std::find_if(
        std::begin(kUnused), std::end(kUnused),
        [&](const Unused& rule) { return rule.key == flag.key && rule.is_unused(preset, facts); });
    if (unused == std::end(kUnused)) continue;
    lines.push_back(flag.source + " has no effect " + unused->when);
  }
  return lines;
}

}  // namespace caption::config
