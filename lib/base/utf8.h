// base/utf8.h: UTF-8 encoding and decoding, for code that needs code points but no Unicode tables.
// Source: RFC 3629 (surrogates and code points above U+10FFFF are invalid).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace caption {

bool is_valid_utf8(std::string_view text);

// U+FEFF as some programs write it before a text in UTF-8.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The text without a byte order mark at its beginning; only the first of several is one.
inline std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

// The number of bytes of the character that begins with the byte `lead`, in valid UTF-8.
inline std::size_t utf8_length(char lead) {
  const auto byte = static_cast<std::uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at `pos` of valid UTF-8; sets `length` to its number of bytes.
inline char32_t character_at(std::string_view text, std::size_t pos, std::size_t* length) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<std::uint8_t>(text[pos + i]));
  };
  const char32_t lead = byte(0);
  *length = utf8_length(text[pos]);
  switch (*length) {
    case 1: return lead;
    case 2: return (lead & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
    case 3: return (lead & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
    default:
      return (lead & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 |
             (byte(3) & 0x3Fu);
  }
}

// Invalid bytes become U+FFFD, one for each maximal invalid subpart (as Rust's from_utf8_lossy and
// the WHATWG decoder do).
std::u32string decode_utf8_lossy(std::string_view text);
std::string encode_utf8(std::u32string_view text);
void append_utf8(std::string& out, char32_t code_point);

// The text with every invalid subpart replaced by U+FFFD.
std::string make_valid_utf8(std::string_view text);

// Length of the longest prefix that does not end inside a character; at most 3 bytes shorter than
// `text`. The remaining bytes may become a character when more bytes arrive.
std::size_t complete_utf8_prefix(std::string_view text);

}  // namespace caption
