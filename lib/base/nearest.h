// base/nearest.h: suggests the known name that a mistyped name was meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caption {

// The candidate with the smallest edit distance from `typed`, the first among equals; a missing
// letter and two swapped neighbours cost less than a wrong or a superfluous letter. A candidate
// also qualifies when `typed` is a prefix of it (at least three characters), or when all words of
// `typed` are words of it: "--beams" is "--num-beams". Empty when no candidate is near. Compares
// bytes, ignoring ASCII case and leading dashes; neither text has to be UTF-8.
std::string nearest_name(std::string_view typed, const std::vector<std::string>& candidates);

// "; did you mean NAME?" with nearest_name(), or empty: the end of an error message.
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& candidates);

}  // namespace caption
