#include "config/comparable_settings.h"

#include <string_view>

#include "base/error.h"
#include "config/choices.h"
#include "config/internal/idle_options.h"
#include "config/parse_preset.h"
#include "config/resolve.h"

namespace caption::config {
namespace {

constexpr std::string_view kKvCache = "quantization.kv_cache";
constexpr std::string_view kColorMatrix = "video.color_matrix";
constexpr std::string_view kRequantize = "quantization.requantize";
constexpr std::string_view kAuto = "auto";  // video: bt601 (video/read_clip.h)

// The options on which the effect of others depends, and those that `auto` follows.
bool is_deciding(std::string_view key) {
  return key == "generation.temperature" || key == "generation.num_beams" ||
         key == "engine.attention" || key == "quantization.weights";
}

// A preset with the deciding options of the settings. A value that is not read, as one of a later
// version, leaves its default.
Preset preset_of(const Settings& settings) {
  Preset preset;
  for (const auto& [key, value] : settings) {
    if (!is_deciding(key)) continue;
    try {
      apply_override(preset, {key, value, key});
    } catch (const Error& error) {
      if (is_of_machine(error.code())) throw;
    }
  }
  return preset;
}

bool is_idle(std::string_view key, const Preset& preset) {
  return key == kRequantize || idle_reason(key, preset) != nullptr;
}

void erase_idle(Settings& settings, const Preset& preset) {
  std::erase_if(settings, [&](const auto& setting) { return is_idle(setting.first, preset); });
}

void name_what_auto_is(Settings& settings, const Preset& preset) {
  for (auto& [key, value] : settings) {
    if (value != kAuto) continue;
    if (key == kKvCache) value = choice_name(kv_format(preset.quantization));
    if (key == kColorMatrix) value = choice_name(ColorMatrix::kBt601);
  }
}

}  // namespace

Settings effective_settings(Settings settings) {
  const Preset preset = preset_of(settings);
  erase_idle(settings, preset);
  name_what_auto_is(settings, preset);
  return settings;
}

void make_comparable(Settings& there, Settings& now) {
  const Preset preset_there = preset_of(there);
  const Preset preset_now = preset_of(now);
  for (Settings* settings : {&there, &now}) {
    erase_idle(*settings, preset_there);
    erase_idle(*settings, preset_now);
  }
  name_what_auto_is(there, preset_there);
  name_what_auto_is(now, preset_now);
}

}  // namespace caption::config
