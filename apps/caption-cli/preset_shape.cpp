#include "preset_shape.h"

#include <optional>

#include "base/error.h"
#include "config/resources.h"

namespace caption::cli {
namespace {

std::string known_names() {
  std::string names;
  for (const std::string& name : model::known_shape_names()) {
    names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

// Returns the folder of the model's files, if available.
std::optional<std::filesystem::path> find_folder(std::string_view name,
                                                 const std::filesystem::path& preset_folder,
                                                 std::string& why_not) {
  try {
    return config::find_model(name, preset_folder);
  } catch (const Error& error) {
    why_not = error.what();
    return std::nullopt;
  }
}

}  // namespace

PresetShape find_shape(std::string_view name, const std::filesystem::path& preset_folder) {
  std::string why_not;
  const std::optional<model::ModelShape> known = model::find_known_shape(name);
  if (const auto folder = find_folder(name, preset_folder, why_not)) {
    try {
      return {.shape = model::read_shape(*folder), .note = {}};
    } catch (const Error& error) {
      // A model family that this build cannot read may still be in the table of known models.
      if (error.code() != ErrorCode::kUnavailable || !known.has_value()) throw;
    }
  }
  if (known.has_value()) {
    return {.shape = *known,
            .note = std::string(name) + " is not read from files; its shape is known by name"};
  }
  throw Error(ErrorCode::kBadModel,
              why_not + "; without files, the shapes known by name are " + known_names());
}

PresetShape find_preset_shape(const config::ModelSection& section,
                              const std::filesystem::path& preset_folder) {
  if (!section.is_composed) return find_shape(section.path, preset_folder);
  const PresetShape vision = find_shape(section.vision, preset_folder);
  const PresetShape llm = find_shape(section.llm, preset_folder);
  if (!vision.shape.vision.has_value() || !llm.shape.text.has_value()) {
    throw Error(ErrorCode::kBadModel,
                "model: a composed model needs a vision tower and a language model; " +
                    (vision.shape.vision.has_value() ? section.llm : section.vision) +
                    " is neither");
  }
  std::filesystem::path projector = preset_folder / section.projector;
  if (!std::filesystem::exists(projector)) projector = section.projector;
  PresetShape composed;
  composed.shape = model::compose_shapes(*vision.shape.vision, *llm.shape.text,
                                         {.vision = section.vision,
                                          .projector = projector,
                                          .llm = section.llm,
                                          .vision_feature_layer = section.vision_feature_layer,
                                          .pool_stride = section.pooling,
                                          .prompt = section.prompt});
  composed.shape.stored_dtype = llm.shape.stored_dtype;
  composed.note = vision.note + (vision.note.empty() || llm.note.empty() ? "" : "; ") + llm.note;
  return composed;
}

bench::WeightLayout weight_layout_of(const config::QuantizationSection& quantization) {
  using config::WeightFormat;
  switch (quantization.weights) {
    case WeightFormat::kF32: return bench::WeightLayout::kF32;
    case WeightFormat::kBF16: return bench::WeightLayout::kBF16;
    case WeightFormat::kF16: return bench::WeightLayout::kF16;
    case WeightFormat::kInt8: return bench::WeightLayout::kInt8;
    case WeightFormat::kInt4: return bench::WeightLayout::kInt4;
    case WeightFormat::kW8A8: return bench::WeightLayout::kW8A8;
    case WeightFormat::kNf4:
      return quantization.double_quant ? bench::WeightLayout::kNf4Double
                                       : bench::WeightLayout::kNf4;
    case WeightFormat::kAwq:
    case WeightFormat::kGptq: return bench::WeightLayout::kAwq;
  }
  return bench::WeightLayout::kBF16;
}

}  // namespace caption::cli
