// config/composed_source.h: the options of a composed model as the model room takes them.
#pragma once

#include <filesystem>

#include "config/preset.h"
#include "model/caption_model.h"

namespace caption::config {

// The parts are named as in the preset, except for the projector, a file or folder relative to
// `preset_folder` or to the working folder.
model::ComposedSource composed_source(const ModelSection& section,
                                      const std::filesystem::path& preset_folder);

}  // namespace caption::config
