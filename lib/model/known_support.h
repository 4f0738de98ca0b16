// model/known_support.h: whether this build can run well-known models.
#pragma once

#include <optional>
#include <string_view>

namespace caption::model {

enum class Support {
  kCaptions,  // runs as a captioner
  kPart,      // runs as part of a composed model
  kNone,
};

struct KnownSupport {
  Support support = Support::kNone;
  std::string_view why_not = {};  // for kNone: the feature that this build lacks
};

// Looks up a model by name in the table of find_known_shape(); std::nullopt when it is not in it.
std::optional<KnownSupport> find_known_support(std::string_view name);

}  // namespace caption::model
