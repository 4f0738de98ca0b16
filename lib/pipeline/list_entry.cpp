#include "pipeline/list_entry.h"

#include <algorithm>

#include "base/error.h"
#include "base/join.h"

namespace caption::pipeline {

std::optional<JsonObject> parse_list_entry(std::string_view line,
                                           std::initializer_list<std::string_view> keys,
                                           const std::string& where) {
  if (!line.starts_with("{\"")) return std::nullopt;
  const JsonObject entry = JsonObject::parse(line, where, ErrorCode::kUsage);
  for (const std::string& key : entry.keys()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    throw Error(ErrorCode::kUsage,
                where + ": unknown key " + json_quote(key) + "; there are " + join(keys));
  }
  return entry;
}

}  // namespace caption::pipeline
