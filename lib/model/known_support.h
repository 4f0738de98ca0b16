// model/known_support.h: what this build makes of the files of well-known models.
#pragma once

#include <optional>
#include <string_view>

namespace caption::model {

enum class Support {
  kCaptions,  // runs as it is
  kPart,      // runs as a part of a composed model
  kNone,
};

struct KnownSupport {
  Support support = Support::kNone;
  std::string_view why_not = {};  // for kNone: what this build does not run
};

// Looks a model up by its name in the table of find_known_shape(); std::nullopt when it is not
// there.
std::optional<KnownSupport> find_known_support(std::string_view name);

}  // namespace caption::model
