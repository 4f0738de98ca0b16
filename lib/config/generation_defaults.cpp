#include "config/generation_defaults.h"

#include <algorithm>

#include "base/error.h"
#include "base/join.h"
#include "base/log.h"
#include "config/fields.h"
#include "config/option_names.h"
#include "config/resources.h"

namespace caption::config {
namespace {

using model::GenerationConfig;

constexpr double kMinTemperature = 1e-5;  // below it, sampling::validate() refuses
// 0 in the file means that only the most likely token is kept, and so it does here.
constexpr double kMinTopP = 1e-6;

std::optional<double> temperature_of(const GenerationConfig& config) {
  if (!config.do_sample) return std::nullopt;
  if (!*config.do_sample) return 0.0;
  const double temperature = config.temperature.value_or(1.0);
  return temperature < kMinTemperature ? 0.0 : temperature;
}

std::optional<double> top_p_of(const GenerationConfig& config) {
  if (!config.top_p) return std::nullopt;
  return std::max(*config.top_p, kMinTopP);
}

}  // namespace

std::set<std::string> apply_generation_config(Preset& preset, const GenerationConfig& config) {
  std::set<std::string> taken;
  const auto take = [&](const char* key, auto& value, const auto& found) {
    if (!found || preset.given.contains(key)) return;
    value = *found;
    taken.insert(key);
  };
  GenerationSection& to = preset.generation;
  take("generation.max_new_tokens", to.max_new_tokens, config.max_new_tokens);
  take("generation.min_new_tokens", to.min_new_tokens, config.min_new_tokens);
  take("generation.temperature", to.temperature, temperature_of(config));
  take("generation.top_p", to.top_p, top_p_of(config));
  take("generation.top_k", to.top_k, config.top_k);
  take("generation.repetition_penalty", to.repetition_penalty, config.repetition_penalty);
  take("generation.no_repeat_ngram_size", to.no_repeat_ngram_size, config.no_repeat_ngram_size);
  take("generation.num_beams", to.num_beams, config.num_beams);
  take("generation.length_penalty", to.length_penalty, config.length_penalty);
  take("generation.early_stopping", to.early_stopping, config.early_stopping);
  if (to.min_new_tokens > to.max_new_tokens) {
    if (taken.contains("generation.min_new_tokens")) {
      to.min_new_tokens = to.max_new_tokens;
    } else if (taken.contains("generation.max_new_tokens")) {
      to.max_new_tokens = to.min_new_tokens;
    }
  }
  return taken;
}

void adopt_generation_config(Preset& preset, const GenerationConfig& config) {
  const std::set<std::string> taken = apply_generation_config(preset, config);
  require_token_range(preset);
  std::vector<std::string> settings;
  for (const FieldValue& field : list_values(preset)) {
    if (!taken.contains(field.key)) continue;
    settings.push_back(field.key.substr(field.key.find('.') + 1) + " " + field.value);
  }
  if (!settings.empty()) log_info("config", config.file + ": " + join(settings));
  if (!config.unsupported.empty()) {
    log_warning("config", config.file + ": " + join(config.unsupported) +
                              ": not supported by this build and left out");
  }
}

std::optional<GenerationConfig> find_generation_config(const Preset& preset,
                                                       const Locations& locations) {
  const std::string& name = preset.model.is_composed ? preset.model.llm : preset.model.path;
  std::filesystem::path folder;
  try {
    folder = find_model(name, locations);
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    return std::nullopt;
  }
  return model::read_generation_config(folder);
}

}  // namespace caption::config
