// quantise/internal/other_files.h: the files of a model's folder besides its weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace caption::quantise {

// The largest file that is copied.
inline constexpr std::int64_t kMaxOtherFileBytes = std::int64_t{1} << 30;

// Returns the names of the files that a quantised checkpoint has too, sorted: those in the folder
// itself that are neither weights of any kind, nor an index of them, nor config.json, nor
// kManifestName, nor drafts::kLayerFileName, nor hidden. Throws Error(kBadModel) for one of them
// that cannot be read or is too large, before anything else is done; kIo.
std::vector<std::string> find_other_files(const std::filesystem::path& folder);

// Returns the text of config.json with a quantization_config (JSON) as its last key. Throws
// Error(kBadModel) for a text that is no object, or already has the key.
std::string add_configuration(const std::string& config, const std::string& quantisation,
                              const std::string& file_name);

}  // namespace caption::quantise
