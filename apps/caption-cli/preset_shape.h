// apps/caption-cli/preset_shape.h: how large the model of a preset is, from its configuration or,
// when its files are not here, from the table of known models.
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
  std::string note;  // where it comes from, when not from the model's own files
};

// Throws Error(kBadModel) for a model that is neither here nor known.
PresetShape find_preset_shape(const config::ModelSection& section,
                              const std::filesystem::path& preset_folder);

// The layout that a preset's weights are counted in.
bench::WeightLayout weight_layout_of(const config::QuantizationSection& quantization);

// Of a model by its folder or name.
PresetShape find_shape(std::string_view name, const std::filesystem::path& preset_folder);

}  // namespace caption::cli
