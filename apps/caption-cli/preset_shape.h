// apps/caption-cli/preset_shape.h: how large the model of a preset is, from its configuration or,
// when its files are not here, from the table of known models.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "config/preset.h"
#include "model/model_shape.h"

namespace caption::cli {

struct PresetShape {
  model::ModelShape shape;
  std::string note;  // where it comes from, when not from the model's own files
};

// Throws Error(kBadModel) for a model that is neither here nor known.
PresetShape find_preset_shape(const config::ModelSection& model,
                              const std::filesystem::path& preset_folder);

// Of a model by its folder or name.
PresetShape find_shape(std::string_view name, const std::filesystem::path& preset_folder);

}  // namespace caption::cli
