// config/adapters.h: the adapters of a preset, written FOLDER or NAME=FOLDER.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "backend/context.h"
#include "config/locations.h"
#include "config/preset.h"
#include "model/adapter_load.h"
#include "model/blueprint.h"
#include "model/caption_model.h"

namespace caption::config {

// Splits "NAME=FOLDER". A name has no slash, so that a folder whose name holds "=" can be written
// with one: "./a=b".
model::AdapterSource parse_adapter(const std::string& text);

// config::from_working_folder() for the folder of such a text.
std::string adapter_from_working_folder(const std::string& text);

// The adapters of ModelSection::adapter with their folders found as find_model() finds models:
// first those without a name. Throws Error(kUsage) when two have no name, two have one name, a name
// or a folder is empty, a name holds a control character, or there are too many; otherwise as
// find_model().
std::vector<model::AdapterSource> adapter_sources(const std::vector<std::string>& texts,
                                                  const Locations& locations);

// The names, in the order of model::CaptionModel::adapters(). Throws as adapter_sources(), but
// looks for no folder.
std::vector<std::string> adapter_names(const std::vector<std::string>& texts);

// What the adapters of a preset, and those inside its model's folders, add to the model, whose
// blueprint was read from these folders. Throws as adapter_sources() and measure_adapters().
model::AdapterLoad measure_adapters(const Context& context, const Preset& preset,
                                    const Locations& locations, const model::Blueprint& blueprint);

}  // namespace caption::config
