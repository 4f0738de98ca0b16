// base/display_width.h: the number of terminal columns that a text takes, and shortening to
// columns.
// Source: Unicode Standard Annex #11 (East Asian Width): characters of the classes W and F take two
// columns. Combining marks take none, nor do the vowels and final consonants of conjoining Hangul,
// which are drawn into the syllable that their first consonant (two columns) begins.
//
// The tables are short; for characters that they do not cover exactly, the larger width is
// returned: a line is then shorter than it could be, and never wraps. Ambiguous characters (class
// A) take one column, as in every terminal whose locale is not an East Asian legacy one.
#pragma once

#include <string>
#include <string_view>

namespace caption {

// Width in columns: 0, 1 or 2. Control characters have width 0: see printable().
int display_width(char32_t character);

// Columns of UTF-8 text on one line. Each invalid UTF-8 sequence counts as U+FFFD: one column.
int display_width(std::string_view text);

// The text as one line that cannot move the cursor or change how the following text is shown:
// control characters, line and paragraph separators, characters that change the direction of
// writing and invalid UTF-8 become U+FFFD.
std::string printable(std::string_view text);

// The text, or its beginning and its end with "..." between them, in at most `columns` columns.
// Characters are not split, and combining marks stay with their character. Below 4 columns: only
// as much of the beginning as fits. columns >= 0.
std::string shorten_middle(std::string_view text, int columns);

// A path in at most `columns` columns: "..." and as many of its last components as fit, or the file
// name alone, which shorten_middle() cuts if it is too long.
std::string shorten_path(std::string_view path, int columns);

}  // namespace caption
