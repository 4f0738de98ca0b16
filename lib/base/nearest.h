// base/nearest.h: which known name somebody meant who typed another one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caption {

// The candidate that is least work away from `typed`, letters forgotten being the cheapest mistake;
// of two equal ones the first. A candidate also counts when `typed` begins it (from three
// characters on), or when all words of `typed` are words of it: "--beams" is "--num-beams". Empty
// when nothing is near. Compares bytes, A-Z as a-z; neither has to be UTF-8.
std::string nearest_name(std::string_view typed, const std::vector<std::string>& candidates);

// "; did you mean NAME?" with nearest_name(), or nothing: the end of a message.
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& candidates);

}  // namespace caption
