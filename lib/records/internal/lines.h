// records/internal/lines.h: splits a text into complete lines, each with its newline.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/utf8.h"

namespace caption::records {

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Number of bytes up to and including the last newline.
inline std::size_t complete_lines_bytes(std::string_view text) {
  const std::size_t last = text.rfind('\n');
  return last == std::string_view::npos ? 0 : last + 1;
}

// The first line without its newline, and without a byte order mark before it.
inline std::string_view first_line(std::string_view text) {
  text = without_byte_order_mark(text);
  return text.substr(0, text.find('\n'));
}

template <class Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) return;
    visit(text.substr(begin, end + 1 - begin));
    begin = end + 1;
  }
}

}  // namespace caption::records
