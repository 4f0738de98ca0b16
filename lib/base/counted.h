// base/counted.h: counts for messages, with the noun in the singular or the plural.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace caption {

// "1 clip", "0 clips", "2 clips". Without `several` the plural is `one` and an s.
std::string counted(std::int64_t count, std::string_view one, std::string_view several = {});

// The same for a number that is already formatted: "0.8 clips/s", "1 clip/s".
std::string counted(const std::string& number, std::string_view one, std::string_view several = {});

// Returns `one` for a count of 1, else `several`. For verbs, and for nouns that do not follow the
// count directly.
std::string_view plural(std::int64_t count, std::string_view one, std::string_view several);

}  // namespace caption
