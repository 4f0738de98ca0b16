#include "base/ascii.h"

#include <algorithm>

namespace caption {

std::string to_lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = to_lower_ascii(c);
  return out;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return to_lower_ascii(x) == to_lower_ascii(y); });
}

bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) {
  return equal_ignoring_case(text.substr(0, prefix.size()), prefix);
}

}  // namespace caption
