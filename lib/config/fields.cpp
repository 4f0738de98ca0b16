#include "config/fields.h"

#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "base/join.h"
#include "base/json.h"
#include "base/units.h"
#include "config/choices.h"
#include "video/read_clip.h"

namespace caption::config {
namespace {

std::string value_text(const std::string& value) { return value; }
std::string value_text(const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& value : values) out += (out.empty() ? "" : ", ") + json_quote(value);
  return "[" + out + "]";
}
std::string value_text(const std::vector<std::int64_t>& values) {
  if (values.size() == 1) return std::to_string(values.front());
  std::string out;
  for (const std::int64_t value : values) out += (out.empty() ? "" : ", ") + std::to_string(value);
  return "[" + out + "]";
}
std::string value_text(bool value) { return value ? "true" : "false"; }
std::string value_text(std::int64_t value) { return std::to_string(value); }
std::string value_text(double value) { return json_number(value); }
template <class E>
requires std::is_enum_v<E> std::string value_text(E value) {
  return std::string(choice_name(value));
}

// Formats a value as in a preset, sizes and times with units.
template <class T>
std::string preset_text(Means means, const T& value) {
  if constexpr (std::is_same_v<T, std::int64_t>) {
    if (means == Means::kBytes) return exact_bytes(value);
  }
  if constexpr (std::is_same_v<T, double>) {
    if (means == Means::kSeconds) return exact_seconds(value);
  }
  return value_text(value);
}

template <class T>
std::string range_text(Means means, const Range<T>& range) {
  return preset_text(means, range.min) + " to " + preset_text(means, range.max);
}
std::string range_text(Means /*means*/) { return {}; }

template <class T>
std::vector<std::string> choices_of_type(Means means) {
  if (means == Means::kSampling) return video::sampling_forms();
  if constexpr (std::is_enum_v<T>) return choice_list<T>();
  if constexpr (std::is_same_v<T, bool>) return {"true", "false"};
  return {};
}

// Returns " [1 to 4096]", " {true, false}", or an empty text.
std::string limits_text(const std::string& range, const std::vector<std::string>& choices) {
  if (!range.empty()) return " [" + range + "]";
  return choices.empty() ? "" : " {" + join(choices) + "}";
}

bool is_model_part(std::string_view key) {
  return key.starts_with("model.") && key != "model.path" && key != "model.adapter";
}

}  // namespace

std::vector<FieldHelp> describe_fields(const Preset& preset) {
  std::vector<FieldHelp> out;
  for_each_field(preset, [&](const Field& field, const auto& value, const auto&... range) {
    using Value = std::remove_cvref_t<decltype(value)>;
    std::string text = preset_text(field.means, value);
    if (text == "[]") text.clear();
    out.push_back({.key = field.key,
                   .flag = field.flag,
                   .help = field.help,
                   .details = field.details,
                   .means = field.means,
                   .value = std::move(text),
                   .range = range_text(field.means, range...),
                   .choices = choices_of_type<Value>(field.means),
                   .is_number = sizeof...(range) > 0});
  });
  return out;
}

std::string to_yaml(const Preset& preset, const std::set<std::string>& from_model) {
  std::string out;
  std::string section;
  for_each_field(preset, [&](const Field& field, const auto& value, const auto&... range) {
    const std::string_view key = field.key;
    if (preset.model.is_composed ? key == "model.path" : is_model_part(key)) return;
    const std::string_view section_now = key.substr(0, key.find('.'));
    if (section_now != section) {
      section = section_now;
      out += section + ":\n";
    }
    // A JSON string is a YAML string.
    using Value = std::remove_cvref_t<decltype(value)>;
    std::string text = preset_text(field.means, value);
    if (std::is_same_v<Value, std::string>) text = json_quote(text);
    // A JSON object is a YAML map.
    if (key == kExamplesKey) text = "[" + join(preset.generation.examples) + "]";
    out += "  " + std::string(key.substr(section.size() + 1)) + ": " + text + "  # " + field.help +
           limits_text(range_text(field.means, range...), choices_of_type<Value>(field.means)) +
           (from_model.contains(field.key) ? ", from the model's generation_config.json" : "") +
           "\n";
  });
  return out;
}

std::vector<FieldValue> list_values(const Preset& preset) {
  std::vector<FieldValue> out;
  for_each_field(preset, [&](const Field& field, const auto& value, const auto&...) {
    out.push_back({.key = field.key, .value = value_text(value), .affects = field.affects});
  });
  return out;
}

namespace {

// Marks the keys as given by the flag.
void set_given(Preset& preset, std::string_view flag, std::initializer_list<const char*> keys) {
  for (const std::string_view key : keys) {
    preset.given.emplace(key);
    preset.origins[std::string(key)] = {.name = std::string(key.substr(key.find('.') + 1)),
                                        .place = " of " + std::string(flag)};
  }
}

}  // namespace

void apply_quality(Preset& preset) {
  preset.generation.num_beams = 4;
  preset.generation.length_penalty = 1.2;
  preset.generation.early_stopping = EarlyStopping::kYes;
  preset.generation.temperature = 0;
  set_given(preset, "--quality",
            {"generation.num_beams", "generation.length_penalty", "generation.early_stopping",
             "generation.temperature"});
}

void apply_speed(Preset& preset) {
  preset.generation.temperature = 0.8;
  preset.generation.top_p = 0.95;
  preset.generation.max_new_tokens = 128;
  set_given(preset, "--speed",
            {"generation.temperature", "generation.top_p", "generation.max_new_tokens"});
}

}  // namespace caption::config
