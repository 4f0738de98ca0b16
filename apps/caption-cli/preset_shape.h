// apps/caption-cli/preset_shape.h: finds the shape of a preset's model, from its configuration or,
// if its files are not available, from the table of known models.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "bench/weight_layout.h"
#include "config/preset.h"
#include "model/model_shape.h"

namespace caption::cli {

struct PresetShape {
  model::ModelShape shape;
  std::string note;  // source of the shape, if not the model's own files
};

// Throws Error(kBadModel) for a model that is neither available nor known.
PresetShape find_preset_shape(const config::ModelSection& section,
                              const std::filesystem::path& preset_folder);

// The layout in which a preset's weights are counted.
bench::WeightLayout weight_layout_of(const config::QuantizationSection& quantization);

// Finds the shape of a model by its folder or name.
PresetShape find_shape(std::string_view name, const std::filesystem::path& preset_folder);

}  // namespace caption::cli
