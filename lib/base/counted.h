// base/counted.h: counts as people read them, with the noun in the right number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace caption {

// "1 clip", "0 clips", "2 clips". Without `several` the plural is `one` and an s.
std::string counted(std::int64_t count, std::string_view one, std::string_view several = {});

// The same for a number as it is printed: "0.8 clips/s", "1 clip/s".
std::string counted(const std::string& number, std::string_view one, std::string_view several = {});

// `one` for a count of 1, else `several`: for verbs and for nouns that stand apart from the count.
std::string_view plural(std::int64_t count, std::string_view one, std::string_view several);

}  // namespace caption
