// pipeline/list_entry.h: a line of a list that holds more than a path or a prompt.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/json.h"

namespace caption::pipeline {

// Whether a line of a list is a JSON object and no path or prompt: its first characters, but for
// white space, are { and a quotation mark or }.
bool is_list_entry(std::string_view line);

// Whether a line is a JSON list, which stands for nothing.
bool is_json_list(std::string_view line);

// The object of a line for which is_list_entry() holds. Throws Error(kUsage) "where: ..." when it
// is not valid JSON or has a key that is not among `keys`; `remedy` tells how to write a path or a
// prompt that begins in the same way.
JsonObject parse_list_entry(std::string_view line, std::initializer_list<std::string_view> keys,
                            const std::string& where, const std::string& remedy);

}  // namespace caption::pipeline
