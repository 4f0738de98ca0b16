// pipeline/internal/glob.h: whether a text matches a glob.
//
// fnmatch(3) of glibc compares the ends of [a-z] by bytes in C.UTF-8, so that [가-힣] matches no
// syllable.
#pragma once

#include <string_view>

namespace caption::pipeline {

// * matches any characters, / included; ? matches one; [...] one of a set with ranges by code point
// and classes ([:alpha:]), [!...] and [^...] one that is not in it; a backslash makes the next
// character literal; a [ that no ] closes is literal. Where one of both is not UTF-8, both are
// compared by bytes. Thread-safe.
bool matches_glob(std::string_view glob, std::string_view text);

}  // namespace caption::pipeline
