#include "quantise/made_blueprint.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "quantise/format.h"
#include "quantise/make_gguf.h"
#include "quantise/quantise_checkpoint.h"
#include "weights/ggml_type.h"

namespace caption::quantise {
namespace {

using model::Parameter;
using model::Role;

std::string module_of(const Parameter& parameter) {
  const std::string_view weight = ".weight";
  const std::string_view name = parameter.name;
  return std::string(name.ends_with(weight) ? name.substr(0, name.size() - weight.size()) : name);
}

// The matrix of a decoder's layer in a checkpoint of safetensors.
std::optional<weights::StoredCodes> checkpoint_codes(const Format& format,
                                                     const model::Blueprint& blueprint,
                                                     const Parameter& parameter) {
  if (parameter.role != Role::kDecoderLinear) return std::nullopt;
  const DType of_group = blueprint.groups[static_cast<std::size_t>(parameter.group)].stored;
  const MatrixPlan matrix{.module = module_of(parameter),
                          .shape = {parameter.rows(), parameter.columns()},
                          .dtype = parameter.stored.value_or(of_group)};
  if (format.obstacle(matrix).has_value()) return std::nullopt;
  return format.codes(matrix);
}

// A matrix in GGUF files (weights/gguf_export.h has the types).
std::optional<weights::StoredCodes> gguf_codes(weights::GgufWeights type,
                                               const Parameter& parameter) {
  const bool is_of_tower = parameter.role == Role::kEncoderLinear;
  if (!is_of_tower && parameter.role != Role::kDecoderLinear && parameter.role != Role::kHead) {
    return std::nullopt;
  }
  const bool has_8_bits = type == weights::GgufWeights::kQ8_0 || is_of_tower;
  const weights::GgmlType held = has_8_bits ? weights::GgmlType::kQ8_0 : weights::GgmlType::kQ4_0;
  const weights::GgmlTypeTraits& traits =
      *weights::find_ggml_type(static_cast<std::uint32_t>(held));
  if (parameter.columns() % traits.block_elements != 0) return std::nullopt;
  return weights::StoredCodes{.method = traits.name,
                              .format = has_8_bits ? MatrixFormat::kInt8 : MatrixFormat::kInt4,
                              .layout = weights::code_layout_of(held).value()};
}

}  // namespace

std::vector<std::string_view> code_formats() {
  std::vector<std::string_view> names;
  for (const FormatEntry& entry : formats()) names.push_back(entry.name);
  for (const GgufFormat& format : gguf_formats()) {
    if (format.weights != weights::GgufWeights::kF16) names.push_back(format.name);
  }
  return names;
}

std::string read_made_as(const std::filesystem::path& model) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(model, ignored);
  const std::filesystem::path path = (is_folder ? model : model.parent_path()) / kManifestName;
  if (!std::filesystem::exists(path, ignored)) return {};
  try {
    const JsonObject manifest = JsonObject::open(path, ErrorCode::kBadModel);
    const auto settings = manifest.get_object("settings");
    if (!settings) return {};
    std::string made_as = settings->get_string("format", "");
    const std::string group_size = settings->get_string("group size", "128");
    if (group_size != std::to_string(FormatOptions().group_columns)) {
      made_as += " --group-size " + group_size;
    }
    if (settings->get_string("double quantisation", "no") != "no") made_as += " --double-quant";
    if (settings->get_string("act order", "no") != "no") made_as += " --act-order";
    if (settings->get_string("calibration", "none") != "none") made_as += " --calibrate";
    return made_as;
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    return {};
  }
}

model::Blueprint made_blueprint(const model::Blueprint& blueprint, std::string_view format) {
  const FormatEntry* const entry = find_format(format);
  const GgufFormat* const gguf = find_gguf_format(format);
  if (entry == nullptr && (gguf == nullptr || gguf->weights == weights::GgufWeights::kF16)) {
    throw Error(ErrorCode::kUsage, "quantise: no format of codes is " + std::string(format));
  }
  const std::unique_ptr<const Format> made = entry == nullptr ? nullptr : entry->make({});
  model::Blueprint result = blueprint;
  for (Parameter& parameter : result.parameters) {
    parameter.codes = made != nullptr ? checkpoint_codes(*made, blueprint, parameter)
                                      : gguf_codes(gguf->weights, parameter);
  }
  const bool has_codes =
      std::any_of(result.parameters.begin(), result.parameters.end(),
                  [](const Parameter& parameter) { return parameter.codes.has_value(); });
  if (has_codes) return result;
  throw Error(ErrorCode::kUnavailable,
              blueprint.name + ": " + std::string(format) + " holds none of its matrices");
}

}  // namespace caption::quantise
