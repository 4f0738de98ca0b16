// quantise/internal/other_files.h: the files of a model's folder besides its weights.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace caption::quantise {

// Returns the names of the files that a quantised checkpoint has too, sorted: those in the folder
// itself that are neither weights of any kind, nor an index of them, nor config.json, nor
// drafts::kLayerFileName, nor hidden. Throws Error(kIo).
std::vector<std::string> find_other_files(const std::filesystem::path& folder);

// Returns the text of config.json with a quantization_config (JSON) as its last key. Throws
// Error(kBadModel) for a text that is no object, or already has the key.
std::string add_configuration(const std::string& config, const std::string& quantisation,
                              const std::string& file_name);

}  // namespace caption::quantise
