#include "config/internal/idle_options.h"

#include <algorithm>
#include <iterator>

namespace caption::config {
namespace {

bool is_greedy(const Preset& preset) { return preset.generation.temperature == 0; }
bool has_one_beam(const Preset& preset) { return preset.generation.num_beams == 1; }
bool merges_nothing(const Preset& preset) {
  return preset.engine.attention != CompressionMode::kTopkMerge;
}
bool squeezes_nothing(const Preset& preset) {
  return preset.engine.attention != CompressionMode::kSqueezed;
}

struct IdleOption {
  std::string_view key;
  bool (*is_idle)(const Preset& preset);
  const char* when;
};
constexpr const char* kGreedy = "at --temperature 0";
constexpr const char* kOneBeam = "with --num-beams 1";
constexpr IdleOption kIdle[] = {
    {"generation.top_p", is_greedy, kGreedy},
    {"generation.top_k", is_greedy, kGreedy},
    {"generation.seed", is_greedy, kGreedy},
    {"generation.length_penalty", has_one_beam, kOneBeam},
    {"generation.early_stopping", has_one_beam, kOneBeam},
    {"engine.attention_keep_tokens", merges_nothing, "without --attention topk-merge"},
    {"engine.attention_threshold", squeezes_nothing, "without --attention squeezed"},
};

}  // namespace

const char* idle_reason(std::string_view key, const Preset& preset) {
  const auto* const found =
      std::find_if(std::begin(kIdle), std::end(kIdle),
                   [&](const IdleOption& one) { return one.key == key && one.is_idle(preset); });
  return found == std::end(kIdle) ? nullptr : found->when;
}

}  // namespace caption::config
