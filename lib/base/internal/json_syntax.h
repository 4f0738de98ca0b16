// base/internal/json_syntax.h: readable messages for JSON syntax errors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace caption {

// Describes a syntax error: "column 31: the value after : is missing", or, if the text has several
// lines, "line 3, column 1: ...".
// `byte` is the 1-based number of the byte at which the parser stopped; it is past the end of the
// text when the text ended too early. Columns count characters. The result is one line of valid
// UTF-8 of at most 160 bytes.
std::string describe_json_error(std::string_view text, std::size_t byte);

}  // namespace caption
