// quantise/internal/other_files.h: the files of a model's folder besides its weights.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace caption::quantise {

// What `run --drafts self` keeps beside a model (lib/config/self_draft.cpp): it is of that model's
// layers and no part of a checkpoint.
inline constexpr std::string_view kSelfDraftName = "self-draft.json";

// Returns the names of the files that a quantised checkpoint has too, sorted: those in the folder
// itself that are neither weights of any kind, nor an index of them, nor config.json, nor
// kSelfDraftName, nor hidden. Throws Error(kIo).
std::vector<std::string> find_other_files(const std::filesystem::path& folder);

// Returns the text of config.json with a quantization_config (JSON) as its last key. Throws
// Error(kBadModel) for a text that is no object, or already has the key.
std::string add_configuration(const std::string& config, const std::string& quantisation,
                              const std::string& file_name);

}  // namespace caption::quantise
