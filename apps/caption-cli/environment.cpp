#include "environment.h"

#include <cstdlib>

namespace caption::cli {

const char* environment_variable(const char* name) { return std::getenv(name); }

config::Locations environment_locations() { return config::find_locations(environment_variable); }

}  // namespace caption::cli
