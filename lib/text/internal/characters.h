// text/internal/characters.h: classes and lower case of characters.
// Source: the tables of utf8proc (Unicode 15 in utf8proc 2.8).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace caption::text {

// The property White_Space.
bool is_white_space(char32_t c);

// The bytes of White_Space at the start and at the end of valid UTF-8.
std::size_t leading_space_bytes(std::string_view text);
std::size_t trailing_space_bytes(std::string_view text);

// The class \w of Hugging Face tokenizers: letters, marks, decimal digits, connectors and joiners.
bool is_word_character(char32_t c);

// The lower case of a character as UTF-8, by the full mapping without context.
void append_lower_case(char32_t c, std::string* out);

}  // namespace caption::text
