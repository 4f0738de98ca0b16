// pipeline/internal/glob.h: whether a text matches a glob.
//
// fnmatch(3) of glibc compares the ends of [a-z] by bytes in C.UTF-8, so that [가-힣] matches no
// syllable.
#pragma once

#include <string_view>

namespace caption::pipeline {

// Returns whether the whole text matches. In a glob
//   *               matches any number of characters, / included
//   **/             matches any number of folders, also none, where a name may begin
//   ?               matches one character
//   [...]           matches one character that the set has: characters, ranges by code point, and
//                   classes such as [:alpha:]
//   [!...], [^...]  match one character that the set lacks
//   \x              matches x itself
// A [ without its ] matches itself. If the glob or the text is not UTF-8, bytes count as
// characters. Thread-safe.
bool matches_glob(std::string_view glob, std::string_view text);

}  // namespace caption::pipeline
