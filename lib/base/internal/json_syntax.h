// base/internal/json_syntax.h: what is wrong with a JSON text, in words for whoever wrote it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace caption {

// "column 31: the value after : is missing", or with several lines "line 3, column 1: ...".
// `byte` is the number, from 1 on, of the byte at which the parser stopped; beyond the text where
// that ended too early. Columns count characters. One line of valid UTF-8, at most 160 bytes.
std::string describe_json_error(std::string_view text, std::size_t byte);

}  // namespace caption
