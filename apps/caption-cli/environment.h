// apps/caption-cli/environment.h: the process's environment. No other file of the program reads it.
#pragma once

#include "config/locations.h"

namespace caption::cli {

// Returns the variable's value, or null when it is not set.
const char* environment_variable(const char* name);

// Returns config::find_locations() of this process's environment.
config::Locations environment_locations();

}  // namespace caption::cli
