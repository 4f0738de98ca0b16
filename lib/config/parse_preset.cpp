#include "config/parse_preset.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <type_traits>

#include "base/join.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/units.h"
#include "config/choices.h"
#include "config/examples.h"
#include "config/fields.h"
#include "config/internal/yaml_values.h"
#include "video/read_clip.h"

namespace caption::config {
namespace {

constexpr std::string_view kDeviceType = "device.type";
constexpr std::string_view kModelPath = "model.path";
constexpr std::string_view kWeights = "quantization.weights";
constexpr std::string_view kAdapter = "model.adapter";

// Formats a number as in messages and in `presets --show`: sizes and times with units.
template <class T>
std::string number_text(Means means, T value) {
  if constexpr (std::is_same_v<T, double>) {
    return means == Means::kSeconds ? exact_seconds(value) : json_number(value);
  } else {
    return means == Means::kBytes ? exact_bytes(value) : std::to_string(value);
  }
}

// A value from a file or a flag.
struct Scalar {
  std::string_view text;
  bool is_string = false;                          // quoted: neither a number nor a bool
  const std::vector<std::string>* list = nullptr;  // used instead of the text if not null
};

// Assigns the scalar; returns what is wrong with it, or an empty text.
std::string assign(const Scalar& scalar, std::string& value) {
  if (scalar.text.size() > kMaxTextBytes) {
    return std::to_string(scalar.text.size()) + " bytes of text; at most " +
           std::to_string(kMaxTextBytes) + " are allowed";
  }
  if (scalar.text.find('\0') != std::string_view::npos) {
    return "the text holds a NUL character, " + json_quote_start(scalar.text);
  }
  value = scalar.text;
  return {};
}

std::string assign(const Scalar& scalar, std::vector<std::string>& values) {
  std::vector<std::string> found{std::string(scalar.text)};
  if (scalar.list != nullptr) found = *scalar.list;
  for (const std::string& value : found) {
    std::string checked;
    std::string problem = value.empty() ? "the text is empty" : assign({.text = value}, checked);
    if (!problem.empty()) return problem;
  }
  values = std::move(found);
  return {};
}

std::string assign(const Scalar& scalar, bool& value) {
  const bool is_true = scalar.text == "true" || scalar.text == "on";
  if (scalar.is_string || (!is_true && scalar.text != "false" && scalar.text != "off")) {
    return "expected true or false, or on or off, found " + json_quote_start(scalar.text);
  }
  value = is_true;
  return {};
}

enum class Reading { kNumber, kTooLarge, kNoNumber, kLeadingZeros };

// Parses a plain number; the whole text must match. Leading zeros are refused because YAML 1.1
// reads 010 as 8, and YAML 1.2 as 10.
template <class T>
Reading read_number(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end) return Reading::kNoNumber;
  if (has_leading_zeros(text)) return Reading::kLeadingZeros;
  if (error == std::errc::result_out_of_range) {
    if constexpr (std::is_floating_point_v<T>) {
      // A number that is too close to 0 becomes the least one beside it, and is not taken for 0.
      const double nearest = std::strtod(std::string(text).c_str(), nullptr);
      value = std::copysign(std::numeric_limits<T>::denorm_min(), static_cast<T>(nearest));
      if (std::abs(nearest) < 1) return Reading::kNumber;
    }
    return Reading::kTooLarge;
  }
  return error == std::errc() ? Reading::kNumber : Reading::kNoNumber;
}

// As read_number(), but also accepts a size or a time with its unit.
Reading read_value(Means means, std::string_view text, std::int64_t& value) {
  const Reading plain = read_number(text, value);
  if (means != Means::kBytes || plain != Reading::kNoNumber) return plain;
  if (has_leading_zeros(text)) return Reading::kLeadingZeros;
  const std::optional<std::int64_t> bytes = parse_bytes(text);
  if (bytes.has_value()) value = *bytes;
  if (bytes.has_value()) return Reading::kNumber;
  return is_size(text) ? Reading::kTooLarge : Reading::kNoNumber;
}
Reading read_value(Means means, std::string_view text, double& value) {
  const Reading plain = read_number(text, value);
  if (plain == Reading::kNumber) value += 0.0;  // -0 is 0, also in a manifest
  if (means != Means::kSeconds || plain != Reading::kNoNumber) return plain;
  if (has_leading_zeros(text)) return Reading::kLeadingZeros;
  const std::optional<double> seconds = parse_seconds(text);
  if (seconds.has_value()) value = *seconds;
  return seconds.has_value() ? Reading::kNumber : Reading::kNoNumber;
}

template <class T>
std::string_view what_is_expected(Means means) {
  if (means == Means::kBytes) return kSizeExample;
  if (means == Means::kSeconds) return kTimeExample;
  return std::is_same_v<T, double> ? "a number" : "an integer";
}

template <class T>
std::string assign(const Scalar& scalar, Means means, T& value, const Range<T>& range) {
  T read{};
  // A size or a time may be quoted, because it is text.
  const bool is_text = scalar.is_string && means != Means::kBytes && means != Means::kSeconds;
  const Reading reading = is_text ? Reading::kNoNumber : read_value(means, scalar.text, read);
  if (reading == Reading::kNoNumber || reading == Reading::kLeadingZeros) {
    return "expected " + std::string(what_is_expected<T>(means)) + ", found " +
           json_quote_start(scalar.text) +
           (reading == Reading::kLeadingZeros ? "; leave out the leading zeros" : "");
  }
  // The comparison also rejects NaN.
  if (reading == Reading::kTooLarge || !(read >= range.min && read <= range.max)) {
    return "expected " + number_text(means, range.min) + " to " + number_text(means, range.max) +
           ", found " + json_quote_start(scalar.text);
  }
  value = read;
  return {};
}

std::string assign(const Scalar& scalar, Means means, std::vector<std::int64_t>& values,
                   const IntRange& range) {
  constexpr std::size_t kMaxValues = 64;
  std::vector<std::string> found{std::string(scalar.text)};
  if (scalar.list != nullptr) found = *scalar.list;
  if (found.empty() || found.size() > kMaxValues) {
    return "expected 1 to 64 integers, found " + std::to_string(found.size());
  }
  std::vector<std::int64_t> read;
  for (const std::string& text : found) {
    const Scalar one{.text = text, .is_string = scalar.is_string};
    std::string problem = assign(one, means, read.emplace_back(), range);
    if (!problem.empty()) return problem;
  }
  values = std::move(read);
  return {};
}

// Suggests the nearest name for the end of a message, if there is one.
template <class E>
std::string suggest_choice(std::string_view found) {
  return did_you_mean(found, choice_list<E>());
}
template <>
std::string suggest_choice<DeviceType>(std::string_view found) {
  if (found == "gpu" || found == "GPU") {
    return has_cuda_kernels() ? "; did you mean cuda?"
                              : "; a GPU is cuda, for which this build has no kernels";
  }
  return did_you_mean(found, choice_list<DeviceType>());
}

template <class E>
requires std::is_enum_v<E> std::string assign(const Scalar& scalar, E& value) {
  const std::optional<E> choice = find_choice<E>(scalar.text);
  if (!choice) {
    return "expected one of " + choice_names<E>() + ", found " + json_quote_start(scalar.text) +
           suggest_choice<E>(scalar.text);
  }
  value = *choice;
  return {};
}

// For values whose `means` does not matter.
template <class T>
std::string assign(const Scalar& scalar, Means /*means*/, T& value) {
  return assign(scalar, value);
}

// Gives a sampling the form of sampling_text(); returns what is wrong with it, or an empty text.
std::string settle_sampling(std::string& text) {
  try {
    text = video::sampling_text(video::parse_sampling(text, 1));
    return {};
  } catch (const Error& error) {
    // The message already begins with the key.
    constexpr std::string_view kPrefix = "sampling: ";
    const std::string_view what = error.what();
    return std::string(what.starts_with(kPrefix) ? what.substr(kPrefix.size()) : what);
  }
}

// Gives examples the form of to_json(); returns what is wrong with one, or an empty text.
std::string settle_examples(std::vector<std::string>& examples) {
  for (std::size_t i = 0; i < examples.size(); ++i) {
    try {
      examples[i] = to_json(parse_example(examples[i], "example " + std::to_string(i + 1)));
    } catch (const Error& error) {
      return error.what();
    }
  }
  return {};
}

enum class SetResult { kSet, kUnknownKey };

// Sets one key. `problem` describes an error in the value, or stays empty.
SetResult set_field(Preset& preset, std::string_view key, const Scalar& scalar,
                    std::string& problem) {
  SetResult result = SetResult::kUnknownKey;
  for_each_field(preset, [&](const Field& field, auto& value, const auto&... range) {
    if (key != field.key) return;
    result = SetResult::kSet;
    using Value = std::remove_reference_t<decltype(value)>;
    constexpr bool kIsList = std::is_same_v<Value, std::vector<std::string>> ||
                             std::is_same_v<Value, std::vector<std::int64_t>>;
    problem = scalar.list != nullptr && !kIsList ? "expected one value, found a list"
                                                 : assign(scalar, field.means, value, range...);
  });
  if (problem.empty() && key == "video.sampling") problem = settle_sampling(preset.video.sampling);
  if (problem.empty() && key == kExamplesKey) problem = settle_examples(preset.generation.examples);
  if (result == SetResult::kSet && problem.empty()) preset.given.emplace(key);
  return result;
}

// Returns the section's name: the part before the first dot, or the whole key.
std::string_view section_of(std::string_view key) { return key.substr(0, key.find('.')); }

// The names of the sections, in the order of fields.h.
std::vector<std::string> section_names() {
  std::vector<std::string> names;
  const Preset preset;
  for_each_field(preset, [&](const Field& field, const auto&, const auto&...) {
    const std::string_view section = section_of(field.key);
    if (names.empty() || names.back() != section) names.emplace_back(section);
  });
  return names;
}

bool is_section(std::string_view name) {
  const std::vector<std::string> names = section_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> keys_of(std::string_view section) {
  std::vector<std::string> out;
  Preset preset;
  for_each_field(preset, [&](const Field& field, const auto&, const auto&...) {
    if (section_of(field.key) != section) return;
    out.emplace_back(std::string_view(field.key).substr(section.size() + 1));
  });
  return out;
}

// Names the key of the option whose flag has the name that was written, as "dtype" is of --dtype;
// empty when no flag has it.
std::string describe_flag(std::string_view name) {
  std::string flag = "--" + std::string(name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  std::string out;
  const Preset preset;
  for_each_field(preset, [&](const Field& field, const auto&, const auto&...) {
    if (flag == field.flag) out = "; " + flag + " is " + field.key + " in a preset";
  });
  return out;
}

std::string describe_unknown_key(std::string_view key) {
  const std::string_view section = section_of(key);
  if (!is_section(section)) {
    const std::vector<std::string> sections = section_names();
    const std::string flag = describe_flag(section);
    return "unknown section " + json_quote_start(section) + "; there are " + join(sections) +
           (flag.empty() ? did_you_mean(section, sections) : flag);
  }
  const std::vector<std::string> keys = keys_of(section);
  if (section.size() == key.size()) {
    return json_quote_start(section) + " is a section; it takes the keys " + join(keys);
  }
  const std::string_view name = key.substr(section.size() + 1);
  const std::string flag = describe_flag(name);
  return "unknown key " + json_quote_start(key) + "; the section has " + join(keys) +
         (flag.empty() ? did_you_mean(name, keys) : flag);
}

[[noreturn]] void throw_unknown_key(std::string_view name, const YamlValue& value) {
  throw_at(name, value.key_line, value.key_column, describe_unknown_key(value.key));
}

// Checks that `model` is a path or a map of parts, with or without adapters.
void check_model(const YamlDocument& document, std::string_view name, Preset& preset) {
  for (const YamlSection& section : document.sections) {
    if (section.name != "model") continue;
    const auto is_given = [&](std::string_view key) {
      return std::any_of(document.values.begin(), document.values.end(),
                         [&](const YamlValue& value) { return value.key == key; });
    };
    const bool is_adapter_alone =
        is_given(kAdapter) &&
        std::all_of(document.values.begin(), document.values.end(), [&](const YamlValue& value) {
          return section_of(value.key) != "model" || value.key == kAdapter;
        });
    if (is_adapter_alone) return;
    if (is_given(kModelPath)) {
      for (const YamlValue& value : document.values) {
        if (section_of(value.key) != "model" || value.key == kModelPath || value.key == kAdapter) {
          continue;
        }
        throw_at(name, section.line, section.column,
                 value.key +
                     " is of a composed model, which has vision, projector and llm in place "
                     "of model.path");
      }
      preset.model.is_composed = false;
      return;
    }
    for (const char* key : {"model.vision", "model.projector", "model.llm"}) {
      if (!is_given(key)) {
        throw_at(name, section.line, section.column,
                 std::string(key) + " is missing; a composed model has vision, projector and llm");
      }
    }
    if (preset.model.prompt.find("{video}") == std::string::npos) {
      throw_at(name, section.line, section.column, "model.prompt has no {video}");
    }
    preset.model.is_composed = true;
    preset.model.path.clear();
  }
}

void check_consistency(const Preset& preset, const YamlDocument& document, std::string_view name) {
  if (preset.generation.min_new_tokens <= preset.generation.max_new_tokens) return;
  for (const YamlValue& value : document.values) {
    if (value.key != "generation.min_new_tokens" && value.key != "generation.max_new_tokens") {
      continue;
    }
    throw_at(name, value.line, value.column,
             "generation.min_new_tokens " + std::to_string(preset.generation.min_new_tokens) +
                 " exceeds generation.max_new_tokens " +
                 std::to_string(preset.generation.max_new_tokens));
  }
}

}  // namespace

Preset overlay_preset(Preset base, std::string_view yaml, std::string_view name) {
  const YamlDocument document = read_yaml(yaml, name);
  for (const YamlSection& section : document.sections) {
    if (is_section(section.name)) continue;
    throw_unknown_key(name, {.key = section.name + ".",
                             .text = {},
                             .key_line = section.line,
                             .key_column = section.column});
  }
  for (const YamlValue& value : document.values) {
    // A section without keys, such as "speculative:".
    if (value.is_null && is_section(value.key)) continue;
    const bool is_model = value.key == "model";
    const std::string_view key = is_model ? kModelPath : std::string_view(value.key);
    std::string problem;
    const Scalar scalar{.text = value.text,
                        .is_string = value.is_quoted,
                        .list = value.is_list ? &value.items : nullptr};
    if (set_field(base, key, scalar, problem) == SetResult::kUnknownKey) {
      throw_unknown_key(name, value);
    }
    if (value.is_null) problem = "the value is missing";
    if (!problem.empty()) throw_at(name, value.line, value.column, value.key + ": " + problem);
    if (is_model) base.model.is_composed = false;
    base.origins[std::string(key)] = {.name = value.key,
                                      .separator = ": ",
                                      .place = " (" + std::string(name) + ":" +
                                               std::to_string(value.line) + ":" +
                                               std::to_string(value.column) + ")"};
  }
  check_model(document, name, base);
  check_consistency(base, document, name);
  return base;
}

Preset parse_preset(std::string_view yaml, const std::string& name) {
  Preset preset;
  preset.name = name;
  return overlay_preset(std::move(preset), yaml, name);
}

void apply_override(Preset& preset, const Override& override_value) {
  std::string problem;
  const SetResult result =
      set_field(preset, override_value.key,
                {.text = override_value.value,
                 .list = override_value.items.empty() ? nullptr : &override_value.items},
                problem);
  CAPTION_CHECK(result == SetResult::kSet, "no option " + override_value.key);
  if (!problem.empty()) {
    throw Error(ErrorCode::kUsage, override_value.source + ": " + problem);
  }
  preset.origins[override_value.key] = {.name = override_value.source};
  if (override_value.key == kDeviceType) {
    preset.device.given_by = override_value.source + " " + override_value.value;
  }
  if (override_value.key == kModelPath) preset.model.is_composed = false;
  // double_quant says something about the weights of the preset, not about others.
  if (override_value.key == kWeights && preset.quantization.weights != WeightFormat::kNf4) {
    preset.quantization.double_quant = false;
  }
}

}  // namespace caption::config
