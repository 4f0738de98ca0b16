#include "config/preset_blueprint.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "config/composed_source.h"
#include "config/resources.h"
#include "plan/known_models.h"

namespace caption::config {

PresetBlueprint find_blueprint(std::string_view name, const Locations& locations,
                               model::ModelPart part) {
  std::optional<model::Blueprint> known = plan::find_known_model(name);
  std::filesystem::path folder;
  try {
    folder = find_model(name, locations);
    return {.blueprint = model::read_blueprint(folder, part), .note = {}};
  } catch (const Error& error) {
    // Its files are not here, or those of a family that this build cannot read.
    const bool is_absent = folder.empty() && !is_of_machine(error.code());
    if (!known.has_value() || (!is_absent && error.code() != ErrorCode::kUnavailable)) throw;
  }
  return {.blueprint = *std::move(known),
          .note = std::string(name) + " is not read from files; its shape is known by name"};
}

PresetBlueprint find_preset_blueprint(const ModelSection& section, const Locations& locations) {
  if (!section.is_composed) return find_blueprint(section.path, locations);
  const PresetBlueprint vision =
      find_blueprint(section.vision, locations, model::ModelPart::kVision);
  const PresetBlueprint llm = find_blueprint(section.llm, locations, model::ModelPart::kText);
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
