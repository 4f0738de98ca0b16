#include "text/internal/byte_run.h"

#include <cstddef>

#include "base/utf8.h"

namespace caption::text {

std::string decode_byte_run(std::string_view run) {
  if (is_valid_utf8(run)) return std::string(run);
  return encode_utf8(std::u32string(run.size(), U'\uFFFD'));
}

std::string decode_last_byte_run(std::string_view run) {
  constexpr std::size_t kMaxCharacterBytes = 4;
  std::string text;
  while (!run.empty()) {
    std::size_t length = 1;
    while (length <= kMaxCharacterBytes && !is_valid_utf8(run.substr(0, length))) ++length;
    const bool is_character = length <= kMaxCharacterBytes;
    text += is_character ? std::string(run.substr(0, length)) : std::string("\uFFFD");
    run.remove_prefix(is_character ? length : 1);
  }
  return text;
}

}  // namespace caption::text
