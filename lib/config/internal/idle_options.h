// config/internal/idle_options.h: options that cannot change a caption beside the values of others.
//
// The warnings of a command line (unused_options.h) and the comparison of manifests
// (comparable_settings.h) share this table, so that an option of which the one says that it has no
// effect does not make the other refuse an output.
#pragma once

#include <string_view>

#include "config/preset.h"

namespace caption::config {

// Why the option of this key has no effect on captions, as words behind "has no effect": "at
// --temperature 0". nullptr for an option that may have one.
const char* idle_reason(std::string_view key, const Preset& preset);

}  // namespace caption::config
