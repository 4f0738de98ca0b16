// config/adapters.h: the adapters of a preset, written FOLDER or NAME=FOLDER.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/locations.h"
#include "model/caption_model.h"

namespace caption::config {

// Splits "NAME=FOLDER". A name has no slash, so that a folder whose name holds "=" can be written
// with one: "./a=b".
model::AdapterSource parse_adapter(const std::string& text);

// The adapters of ModelSection::adapter with their folders found as find_model() finds models:
// first those without a name. Throws Error(kUsage) when two have no name, two have one name, a name
// or a folder is empty, a name holds a control character, or there are too many; otherwise as
// find_model().
std::vector<model::AdapterSource> adapter_sources(const std::vector<std::string>& texts,
                                                  const Locations& locations);

// The names, in the order of model::CaptionModel::adapters(). Throws as adapter_sources(), but
// looks for no folder.
std::vector<std::string> adapter_names(const std::vector<std::string>& texts);

}  // namespace caption::config
