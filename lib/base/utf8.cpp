#include "base/utf8.h"

#include <cstdint>

namespace caption {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct Decoded {
  char32_t code_point;
  std::size_t length;  // bytes consumed
  bool valid;
  bool cut_short;  // the text ends inside a sequence that more bytes could complete
};

// Decodes one character at `pos` (pos < text.size()); an invalid sequence consumes its maximal
// subpart (Unicode Standard, section 3.9).
Decoded decode_one(std::string_view text, std::size_t pos) {
  const auto byte_at = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte_at(pos);
  if (lead < 0x80) return {lead, 1, true, false};
  std::size_t length = 0;
  std::uint8_t second_min = 0x80;
  std::uint8_t second_max = 0xBF;
  char32_t value = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    value = lead & 0x1Fu;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    value = lead & 0x0Fu;
    if (lead == 0xE0) second_min = 0xA0;
    if (lead == 0xED) second_max = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    value = lead & 0x07u;
    if (lead == 0xF0) second_min = 0x90;
    if (lead == 0xF4) second_max = 0x8F;
  } else {
    return {kReplacement, 1, false, false};
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (pos + i >= text.size()) return {kReplacement, i, false, true};
    const std::uint8_t byte = byte_at(pos + i);
    const std::uint8_t low = i == 1 ? second_min : 0x80;
    const std::uint8_t high = i == 1 ? second_max : 0xBF;
    if (byte < low || byte > high) return {kReplacement, i, false, false};
    value = (value << 6) | (byte & 0x3Fu);
  }
  return {value, length, true, false};
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  for (std::size_t pos = 0; pos < text.size();) {
    const Decoded decoded = decode_one(text, pos);
    if (!decoded.valid) return false;
    pos += decoded.length;
  }
  return true;
}

std::u32string decode_utf8_lossy(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t pos = 0; pos < text.size();) {
    const Decoded decoded = decode_one(text, pos);
    out.push_back(decoded.code_point);
    pos += decoded.length;
  }
  return out;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0u | (code_point >> 6));
    put(0x80u | (code_point & 0x3Fu));
  } else if (code_point < 0x10000) {
    put(0xE0u | (code_point >> 12));
    put(0x80u | ((code_point >> 6) & 0x3Fu));
    put(0x80u | (code_point & 0x3Fu));
  } else {
    put(0xF0u | (code_point >> 18));
    put(0x80u | ((code_point >> 12) & 0x3Fu));
    put(0x80u | ((code_point >> 6) & 0x3Fu));
    put(0x80u | (code_point & 0x3Fu));
  }
}

std::string encode_utf8(std::u32string_view text) {
  std::string out;
  out.reserve(text.size() * 3);
  for (const char32_t code_point : text) append_utf8(out, code_point);
  return out;
}

std::string make_valid_utf8(std::string_view text) { return encode_utf8(decode_utf8_lossy(text)); }

std::size_t complete_utf8_prefix(std::string_view text) {
  // Only a lead byte among the last three can start an unfinished character.
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const std::size_t pos = text.size() - back;
    if ((static_cast<std::uint8_t>(text[pos]) & 0xC0u) == 0x80u) continue;
    const Decoded decoded = decode_one(text, pos);
    return decoded.cut_short && pos + decoded.length == text.size() ? pos : text.size();
  }
  return text.size();
}

}  // namespace caption
