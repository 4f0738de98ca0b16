#include "config/preset_blueprint.h"

#include <optional>

#include "base/error.h"
#include "base/join.h"
#include "config/composed_source.h"
#include "config/resources.h"
#include "model/read_blueprint.h"
#include "plan/known_models.h"

namespace caption::config {
namespace {

// Returns the folder of the model's files, if available.
std::optional<std::filesystem::path> find_folder(std::string_view name, const Locations& locations,
                                                 std::string& why_not) {
  try {
    return find_model(name, locations);
  } catch (const Error& error) {
    why_not = error.what();
    return std::nullopt;
  }
}

}  // namespace

PresetBlueprint find_blueprint(std::string_view name, const Locations& locations) {
  std::string why_not;
  const std::optional<model::Blueprint> known = plan::find_known_model(name);
  if (const auto folder = find_folder(name, locations, why_not)) {
    try {
      return {.blueprint = model::read_blueprint(*folder), .note = {}};
    } catch (const Error& error) {
      // A model family that this build cannot read may still be in the table of known models.
      if (error.code() != ErrorCode::kUnavailable || !known.has_value()) throw;
    }
  }
  if (known.has_value()) {
    return {.blueprint = *known,
            .note = std::string(name) + " is not read from files; its shape is known by name"};
  }
  throw Error(ErrorCode::kBadModel, why_not + "; without files, the shapes known by name are " +
                                        join(plan::known_model_names()));
}

PresetBlueprint find_preset_blueprint(const ModelSection& section, const Locations& locations) {
  if (!section.is_composed) return find_blueprint(section.path, locations);
  const PresetBlueprint vision = find_blueprint(section.vision, locations);
  const PresetBlueprint llm = find_blueprint(section.llm, locations);
  if (!vision.blueprint.vision.has_value() || !llm.blueprint.text.has_value()) {
    throw Error(ErrorCode::kBadModel,
                "model: a composed model needs a vision tower and a language model; " +
                    (vision.blueprint.vision.has_value() ? section.llm : section.vision) +
                    " is neither");
  }
  PresetBlueprint composed;
  composed.blueprint = model::compose_blueprint(vision.blueprint, llm.blueprint,
                                                composed_source(section, locations.preset_folder));
  composed.note = vision.note + (vision.note.empty() || llm.note.empty() ? "" : "; ") + llm.note;
  return composed;
}

}  // namespace caption::config
