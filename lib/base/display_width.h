// base/display_width.h: how many columns of a terminal a text takes, and texts cut to columns.
// Source: Unicode Standard Annex #11 (East Asian Width): characters of the classes W and F take two
// columns. Combining marks take none, nor do the vowels and final consonants of conjoining Hangul,
// which are drawn into the syllable that their first consonant (two columns) begins.
//
// Where a table of a few lines cannot say it, the wider answer is given: a line is then shorter
// than it could be, and never wraps. Ambiguous characters (class A) take one column, as in every
// terminal whose locale is not an East Asian legacy one.
#pragma once

#include <string>
#include <string_view>

namespace caption {

// 0, 1 or 2. Control characters count as none: see printable().
int display_width(char32_t character);

// Columns of UTF-8 text on one line. Bytes that are no character count as U+FFFD: one column.
int display_width(std::string_view text);

// One line of text that cannot move the cursor or change how what follows is shown: control
// characters, line and paragraph separators, characters that change the direction of writing and
// bytes that are no UTF-8 become U+FFFD.
std::string printable(std::string_view text);

// The text, or its beginning and its end with "..." between them, in at most `columns` columns
// (>= 0); characters stay whole, and combining marks stay with theirs. Below 4 columns: what fits
// of its beginning.
std::string shorten_middle(std::string_view text, int columns);

// A path in at most `columns` columns: as much of its end as whole folders fit behind "...", or the
// name alone, cut by shorten_middle() where it must be.
std::string shorten_path(std::string_view path, int columns);

}  // namespace caption
