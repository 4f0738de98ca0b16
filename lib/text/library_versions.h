// text/library_versions.h: the versions of the libraries that decide tokens.
#pragma once

#include <string>

namespace caption::text {

// The libraries whose Unicode tables decide tokens, with their versions: "pcre2 10.42, utf8proc
// 2.8.0".
std::string library_versions();

}  // namespace caption::text
