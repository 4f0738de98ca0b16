// base/ascii.h: upper and lower case of the letters A to Z, in no locale; other bytes, those of
// UTF-8 among them, are left as they are.
#pragma once

#include <string>
#include <string_view>

namespace caption {

constexpr char to_lower_ascii(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
std::string to_lower_ascii(std::string_view text);

bool equal_ignoring_case(std::string_view a, std::string_view b);
bool starts_with_ignoring_case(std::string_view text, std::string_view prefix);

}  // namespace caption
