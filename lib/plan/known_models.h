// plan/known_models.h: blueprints of well-known models, for planning and measuring without their
// files, and whether this build can run these models.
// Sources: config.json of each repository on the Hugging Face hub.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/blueprint.h"

namespace caption::plan {

enum class Support {
  kCaptions,  // runs as a captioner
  kPart,      // runs as part of a composed model
  kNone,
};

struct KnownSupport {
  Support support = Support::kNone;
  std::string_view why_not = {};  // for kNone: the feature that this build lacks
};

// Looks up a short name ("qwen3-0.6b") or the name on the hub ("Qwen/Qwen3-0.6B"), ignoring case;
// std::nullopt when it is not in the table.
std::optional<model::Blueprint> find_known_model(std::string_view name);
std::vector<std::string> known_model_names();  // short names in the order of the table
std::optional<KnownSupport> find_known_support(std::string_view name);

}  // namespace caption::plan
