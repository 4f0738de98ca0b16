// config/preset_blueprint.h: finds the blueprint of a preset's model, from its configuration or, if
// its files are not available, from the table of known models.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "config/locations.h"
#include "config/preset.h"
#include "model/blueprint.h"
#include "model/read_blueprint.h"

namespace caption::config {

struct PresetBlueprint {
  model::Blueprint blueprint;
  std::string note;  // source of the blueprint, if not the model's own files
};

// Finds a model by its folder or name. Throws as find_model() for a model that is neither available
// nor known, and as read_blueprint().
PresetBlueprint find_blueprint(std::string_view name, const Locations& locations,
                               model::ModelPart part = model::ModelPart::kWhole);
PresetBlueprint find_preset_blueprint(const ModelSection& section, const Locations& locations);

}  // namespace caption::config
