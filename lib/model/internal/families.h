// model/internal/families.h: the list of the families of captioners.
#pragma once

#include <filesystem>
#include <string_view>

namespace caption::model {

struct Family;

// Returns nullptr when this build has no family with this model_type.
const Family* find_family(std::string_view model_type);

// Returns the path of config.json in a model's folder. Throws Error(kBadModel), naming what to do,
// when it is missing.
std::filesystem::path require_config(const std::filesystem::path& folder);

}  // namespace caption::model
