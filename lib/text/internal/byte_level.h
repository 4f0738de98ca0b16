// text/internal/byte_level.h: the alphabet of byte-level BPE, in which each byte is a character.
//
// The printable bytes 0x21..0x7E, 0xA1..0xAC and 0xAE..0xFF are the characters of the same code
// point; the other 68 bytes are U+0100, U+0101, ... in ascending order.
// Source: Hugging Face tokenizers, tokenizers/src/pre_tokenizers/byte_level.rs (bytes_char).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace caption::text {

// The character of a byte, as UTF-8 of one or two bytes.
std::string_view byte_level_char(std::uint8_t byte);

// The text in which each byte of `bytes` is its character.
void append_byte_level(std::string_view bytes, std::string* out);

// The bytes that a text stands for; std::nullopt when a character is not in the alphabet.
std::optional<std::string> bytes_of_byte_level(std::string_view text);

}  // namespace caption::text
