// text/internal/unicode_form.h: the normalisation forms of Unicode, and White_Space.
//
// Source: Unicode Standard Annex #15, with the tables of utf8proc (Unicode 15 in utf8proc 2.8), cut
// to Unicode 12.0, that of the reference (unicode-normalization-alignments 0.1.12). The forms of
// characters that are in both never change. Lower case and classes are those of utf8proc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace caption::text {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// Returns `text` (valid UTF-8) in the form: `text` itself when it needs no change, else a view of
// `*storage`. Time: O(n log m) for runs of at most m combining marks.
std::string_view to_unicode_form(std::string_view text, UnicodeForm form, std::string* storage);

// The property White_Space.
bool is_white_space(char32_t c);

// The bytes of White_Space at the start and at the end of valid UTF-8.
std::size_t leading_space_bytes(std::string_view text);
std::size_t trailing_space_bytes(std::string_view text);

// The class \w of the reference: letters, marks, decimal digits, connectors and joiners.
bool is_word_character(char32_t c);

// The lower case of a character as UTF-8, by the full mapping without context.
void append_lower_case(char32_t c, std::string* out);

// The character at `pos` of valid UTF-8; sets `length` to its number of bytes.
char32_t character_at(std::string_view text, std::size_t pos, std::size_t* length);

}  // namespace caption::text
