// base/utf8.h: UTF-8 encoding and decoding, for code that needs code points but no Unicode tables.
// Source: RFC 3629 (surrogates and code points above U+10FFFF are invalid).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace caption {

bool is_valid_utf8(std::string_view text);

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
