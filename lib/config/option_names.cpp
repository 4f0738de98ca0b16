#include "config/option_names.h"

#include "base/error.h"
#include "config/fields.h"

namespace caption::config {
namespace {

// Returns the flag of the option; the key itself for an option without one.
std::string flag_or_key(std::string_view key) {
  std::string name(key);
  const Preset preset;
  for_each_field(preset, [&](const Field& field, const auto&, const auto&...) {
    if (key == field.key && *field.flag != '\0') name = field.flag;
  });
  return name;
}

Origin origin_of(const Preset& preset, std::string_view key) {
  const auto found = preset.origins.find(key);
  return found != preset.origins.end() ? found->second : Origin{.name = flag_or_key(key)};
}

}  // namespace

std::string option_name(const Preset& preset, std::string_view key) {
  const Origin origin = origin_of(preset, key);
  return origin.name + origin.place;
}

std::string option_text(const Preset& preset, std::string_view key, std::string_view value) {
  const Origin origin = origin_of(preset, key);
  return origin.name + origin.separator + std::string(value) + origin.place;
}

void require_token_range(const Preset& preset) {
  const GenerationSection& generation = preset.generation;
  if (generation.min_new_tokens <= generation.max_new_tokens) return;
  throw Error(ErrorCode::kUsage, option_text(preset, "generation.min_new_tokens",
                                             std::to_string(generation.min_new_tokens)) +
                                     " exceeds " +
                                     option_text(preset, "generation.max_new_tokens",
                                                 std::to_string(generation.max_new_tokens)) +
                                     "; lower the one or raise the other");
}

}  // namespace caption::config
