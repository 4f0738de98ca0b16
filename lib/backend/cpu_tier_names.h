// backend/cpu_tier_names.h: the names of all CPU tiers, for an option that lists them.
#pragma once

#include <string>
#include <vector>

namespace caption {

// Slowest first, whether this machine can run them or not; cpu_tier_from_name() knows each.
std::vector<std::string> cpu_tier_names();

}  // namespace caption
