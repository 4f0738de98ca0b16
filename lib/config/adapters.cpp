#include "config/adapters.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "config/hub_cache.h"
#include "config/resolve.h"
#include "config/resources.h"
#include "pipeline/adapters.h"

namespace caption::config {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::kUsage, "--adapter (model.adapter of a preset): " + what);
}

// Returns the parsed texts, the ones without a name first.
std::vector<model::AdapterSource> parse_adapters(const std::vector<std::string>& texts) {
  std::vector<model::AdapterSource> sources;
  for (const std::string& text : texts) {
    model::AdapterSource source = parse_adapter(text);
    if (source.folder.empty()) fail(json_quote(text) + " names no folder");
    if (text.starts_with('=') || pipeline::holds_control_character(source.name)) {
      fail(json_quote(text) + " has no name that a list could hold; give FOLDER, or NAME=FOLDER");
    }
    for (const model::AdapterSource& other : sources) {
      if (other.name != source.name) continue;
      fail(source.name.empty()
               ? "of several adapters at most one applies to every clip; give the others names "
                 "(NAME=FOLDER)"
               : "two adapters are named " + json_quote(source.name));
    }
    sources.push_back(std::move(source));
  }
  if (sources.size() > pipeline::kMaxAdapters) {
    fail("at most " + std::to_string(pipeline::kMaxAdapters) + " adapters can be given");
  }
  std::stable_partition(sources.begin(), sources.end(),
                        [](const model::AdapterSource& source) { return source.name.empty(); });
  return sources;
}

}  // namespace

model::AdapterSource parse_adapter(const std::string& text) {
  const std::size_t sign = text.find('=');
  const bool has_name = sign != std::string::npos && text.find('/') > sign;
  if (!has_name) return {.folder = text};
  return {.folder = text.substr(sign + 1), .name = text.substr(0, sign)};
}

std::string adapter_from_working_folder(const std::string& text) {
  if (text.starts_with('=')) return text;  // refused by parse_adapters()
  const model::AdapterSource source = parse_adapter(text);
  const std::string folder = from_working_folder(source.folder.string());
  return source.name.empty() ? folder : source.name + "=" + folder;
}

std::vector<model::AdapterSource> adapter_sources(const std::vector<std::string>& texts,
                                                  const Locations& locations) {
  std::vector<model::AdapterSource> sources = parse_adapters(texts);
  for (model::AdapterSource& source : sources) {
    const std::string name = source.folder.string();
    std::error_code ignored;
    if (!std::filesystem::exists(name, ignored) && !find_model_place(name, locations) &&
        !is_hub_name(name)) {
      throw Error(ErrorCode::kBadModel,
                  "adapter " + name +
                      ": there is no such folder, and it is no name of the form "
                      "organisation/adapter; give the folder of a LoRA as PEFT saves it");
    }
    source.folder = find_model(name, locations);
  }
  return sources;
}

model::AdapterLoad measure_adapters(const Context& context, const Preset& preset,
                                    const Locations& locations, const model::Blueprint& blueprint) {
  const ModelSection& section = preset.model;
  std::vector<model::InnerAdapter> inner;
  if (!section.is_composed) {
    inner.push_back({.folder = find_model(section.path, locations)});
  } else {
    using model::ComposedFile;
    inner.push_back({.folder = find_model(section.vision, locations),
                     .source = static_cast<std::int32_t>(ComposedFile::kVision)});
    inner.push_back({.folder = find_model(section.llm, locations),
                     .source = static_cast<std::int32_t>(ComposedFile::kText)});
  }
  return model::measure_adapters(context, blueprint, weight_format(preset.quantization), inner,
                                 adapter_sources(section.adapter, locations));
}

std::vector<std::string> adapter_names(const std::vector<std::string>& texts) {
  std::vector<std::string> names;
  for (const model::AdapterSource& source : parse_adapters(texts)) {
    if (!source.name.empty()) names.push_back(source.name);
  }
  return names;
}

}  // namespace caption::config
