// base/join.h: joins texts with a separator.
#pragma once

#include <string>
#include <string_view>

namespace caption {

// Joins a range of texts: join({"a", "b"}) is "a, b".
template <class Texts>
std::string join(const Texts& texts, std::string_view separator = ", ") {
  std::string out;
  bool is_first = true;
  for (const auto& text : texts) {
    if (!is_first) out += separator;
    out += text;
    is_first = false;
  }
  return out;
}

}  // namespace caption
