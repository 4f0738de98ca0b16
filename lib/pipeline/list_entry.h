// pipeline/list_entry.h: a line of a list that holds more than a path or a prompt.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace caption::pipeline {

// A line that begins with {" is a JSON object; any other is nullopt. Throws Error(kUsage)
// "where: ..." when it is not valid JSON or has a key that is not among `keys`.
std::optional<JsonObject> parse_list_entry(std::string_view line,
                                           std::initializer_list<std::string_view> keys,
                                           const std::string& where);

}  // namespace caption::pipeline
