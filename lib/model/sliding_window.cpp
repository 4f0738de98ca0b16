// The keys of a configuration that say which layers have a sliding window.
// Source: transformers 4.57 configuration_qwen2.py, configuration_qwen3.py.
#include <algorithm>

#include "base/error.h"
#include "model/internal/config.h"
#include "model/text_family.h"

namespace caption::model {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 28;

}  // namespace

std::optional<std::vector<bool>> parse_layer_types(const JsonObject& config,
                                                   std::int64_t num_layers) {
  if (!config.has("layer_types")) return std::nullopt;
  const std::vector<std::string> types = config.get_strings("layer_types");
  if (std::ssize(types) != num_layers) {
    throw_bad(config, "layer_types names " + std::to_string(types.size()) +
                          " layers, but num_hidden_layers is " + std::to_string(num_layers));
  }
  std::vector<bool> is_windowed;
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      throw Error(
          ErrorCode::kUnavailable,
          config.name() + ": layer_types: \"" + type +
              "\" is not supported by this build; full_attention and sliding_attention are");
    }
    is_windowed.push_back(type == "sliding_attention");
  }
  return is_windowed;
}

void set_windows(std::int64_t window, const std::vector<bool>& is_windowed, DecoderSpec& spec) {
  const bool has_window =
      window < spec.max_positions &&
      std::find(is_windowed.begin(), is_windowed.end(), true) != is_windowed.end();
  spec.windows.clear();
  if (!has_window) return;
  for (const bool windowed : is_windowed) spec.windows.push_back(windowed ? window : 0);
}

void parse_layer_windows(const JsonObject& config, DecoderSpec& spec,
                         std::int64_t max_window_layers) {
  // Checked even where it is not used.
  const std::int64_t window = config.get_int("sliding_window", 4096, 1, kMostTokens);
  const bool is_used =
      config.get_bool("use_sliding_window", false) && !is_null(config, "sliding_window");
  const std::int64_t first_windowed =
      config.get_int("max_window_layers", max_window_layers, 0, kMostTokens);
  std::vector<bool> by_place;
  for (std::int64_t layer = 0; layer < spec.num_layers; ++layer) {
    by_place.push_back(is_used && layer >= first_windowed);
  }
  const std::vector<bool> is_windowed =
      parse_layer_types(config, spec.num_layers).value_or(by_place);
  if (!is_used && std::find(is_windowed.begin(), is_windowed.end(), true) != is_windowed.end()) {
    throw_bad(config,
              "layer_types names sliding_attention, but use_sliding_window is false or "
              "sliding_window is null");
  }
  set_windows(window, is_windowed, spec);
}

}  // namespace caption::model
