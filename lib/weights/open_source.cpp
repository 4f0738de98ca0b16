#include "weights/open_source.h"

#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/open_file.h"
#include "weights/checkpoint.h"
#include "weights/internal/coded_source.h"

namespace caption::weights {
namespace {

struct Method {
  std::string_view name;  // quant_method
  CodedTensors (*find)(const Checkpoint& file, const JsonObject& config);
};
constexpr Method kMethods[] = {{"auto-round", find_auto_round},
                               {"awq", find_awq},
                               {"bitsandbytes", find_bitsandbytes},
                               {"compressed-tensors", find_compressed_tensors},
                               {"fp8", find_fp8},
                               {"gptq", find_gptq}};

// Returns the quantization_config of a folder's config.json.
std::optional<JsonObject> find_configuration(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  return find_quantisation(JsonObject::open(path, ErrorCode::kBadModel));
}

const Method& require_method(const JsonObject& config) {
  const std::string name = config.require_string("quant_method");
  std::string known;
  for (const Method& method : kMethods) {
    if (method.name == name) return method;
    known += (known.empty() ? "" : ", ") + std::string(method.name);
  }
  refuse_value(config, "quant_method " + quote_name(name), known + " are");
}

// Throws for a folder whose configuration does not say that its weights are quantised, as their
// tensors do.
void refuse_unnamed_codes(const std::filesystem::path& folder, const Checkpoint& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(folder / "config.json", ignored)) return;
  const std::string_view kEndings[] = {".qweight",          ".weight_packed", ".weight_scale",
                                       ".weight_scale_inv", ".SCB",           ".weight.quant_map"};
  for (const std::string& name : file.names()) {
    for (const std::string_view ending : kEndings) {
      if (!name.ends_with(ending)) continue;
      throw Error(ErrorCode::kBadModel,
                  (folder / "config.json").string() + ": quantization_config is missing, but " +
                      file.where(name) +
                      " is a part of a quantised weight; download config.json "
                      "again, or quantise the model again");
    }
  }
}

}  // namespace

std::optional<JsonObject> find_quantisation(const JsonObject& config) {
  constexpr const char* kKey = "quantization_config";
  if (auto found = config.get_object(kKey)) return found;
  for (const char* const part : {"text_config", "llm_config"}) {
    const auto text = config.get_object(part);
    if (!text) continue;
    if (auto found = text->get_object(kKey)) return found;
  }
  return std::nullopt;
}

void require_known_method(const std::filesystem::path& folder) {
  if (const auto config = find_configuration(folder)) require_method(*config);
}

bool is_quantised_folder(const std::filesystem::path& folder) {
  const bool has_weights = is_present(folder / "model.safetensors") ||
                           is_present(folder / "model.safetensors.index.json");
  return has_weights && find_configuration(folder).has_value();
}

std::unique_ptr<Source> open_source(const std::filesystem::path& folder_or_file) {
  auto file = std::make_unique<Checkpoint>(Checkpoint::open(folder_or_file));
  const std::optional<JsonObject> config = find_configuration(folder_or_file);
  if (!config) {
    refuse_unnamed_codes(folder_or_file, *file);
    return file;
  }
  CodedTensors coded = require_method(*config).find(*file, *config);
  if (coded.empty()) {
    throw Error(ErrorCode::kBadModel, config->name() + ": " + file->name() +
                                          " holds no weight of this format; the configuration is "
                                          "another checkpoint's");
  }
  return std::make_unique<CodedSource>(std::move(file), std::move(coded));
}

}  // namespace caption::weights
