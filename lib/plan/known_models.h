// plan/known_models.h: blueprints of well-known models, for planning and measuring without their
// files. This build runs all of them.
// Sources: config.json of each repository on the Hugging Face hub.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/blueprint.h"

namespace caption::plan {

enum class KnownUse {
  kCaptioner,
  kPart,  // runs as part of a composed model
};

// Looks up a short name ("qwen3-0.6b") or the name on the hub ("Qwen/Qwen3-0.6B"), ignoring case;
// std::nullopt when it is not in the table. "OpenGVLab/InternVL3-8B" is found as
// "OpenGVLab/InternVL3-8B-hf" is: the same weights under other names.
std::optional<model::Blueprint> find_known_model(std::string_view name);
std::optional<KnownUse> find_known_use(std::string_view name);
// The name on the hub, "Qwen/Qwen3-0.6B"; for the third spelling above, the name as it is given.
// std::nullopt also for "demo", which is not on the hub.
std::optional<std::string> find_hub_name(std::string_view name);

// Names in the order of the table: short ones, and those on the hub.
std::vector<std::string> known_model_names();
std::vector<std::string> known_hub_names();

}  // namespace caption::plan
