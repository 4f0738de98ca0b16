#include "text/internal/byte_level.h"

#include <array>

#include "base/utf8.h"

namespace caption::text {
namespace {

constexpr std::size_t kNumBytes = 256;
constexpr std::size_t kEndCodePoint = 0x100 + 68;

struct Alphabet {
  std::array<std::string, kNumBytes> chars;
  std::array<std::int16_t, kEndCodePoint> bytes{};  // indexed by code point; -1 for none

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (std::size_t byte = 0; byte < kNumBytes; ++byte) {
      const bool is_printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      const char32_t code_point = is_printable ? static_cast<char32_t>(byte) : next++;
      append_utf8(chars[byte], code_point);
      bytes[code_point] = static_cast<std::int16_t>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet kAlphabet;
  return kAlphabet;
}

}  // namespace

std::string_view byte_level_char(std::uint8_t byte) { return alphabet().chars[byte]; }

void append_byte_level(std::string_view bytes, std::string* out) {
  const Alphabet& letters = alphabet();
  for (const char c : bytes) out->append(letters.chars[static_cast<std::uint8_t>(c)]);
}

std::optional<std::string> bytes_of_byte_level(std::string_view text) {
  const Alphabet& letters = alphabet();
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    // All characters of the alphabet have one or two bytes in UTF-8.
    std::uint32_t code_point = static_cast<std::uint8_t>(text[i]);
    if (code_point >= 0x80) {
      if (code_point < 0xC2 || code_point > 0xDF || i + 1 == text.size()) return std::nullopt;
      code_point = (code_point & 0x1Fu) << 6 | (static_cast<std::uint8_t>(text[++i]) & 0x3Fu);
    }
    if (code_point >= kEndCodePoint || letters.bytes[code_point] < 0) return std::nullopt;
    out.push_back(static_cast<char>(letters.bytes[code_point]));
  }
  return out;
}

}  // namespace caption::text
