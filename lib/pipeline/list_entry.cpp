#include "pipeline/list_entry.h"

#include <algorithm>

#include "base/error.h"
#include "base/join.h"

namespace caption::pipeline {
namespace {

constexpr std::string_view kSpace = " \t";

std::string_view without_leading_space(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
}

JsonObject parse(std::string_view line, const std::string& where, const std::string& remedy) {
  try {
    return JsonObject::parse(line, where, ErrorCode::kUsage);
  } catch (const Error& error) {
    throw Error(error.code(), std::string(error.what()) + "; " + remedy);
  }
}

}  // namespace

bool is_list_entry(std::string_view line) {
  line = without_leading_space(line);
  if (!line.starts_with('{')) return false;
  line = without_leading_space(line.substr(1));
  return line.starts_with('"') || line.starts_with('\'') || line.starts_with('}');
}

bool is_json_list(std::string_view line) {
  line = without_leading_space(line);
  if (!line.starts_with('[') || line.find(']') == std::string_view::npos) return false;
  try {
    JsonObject::parse("{\"list\": " + std::string(line) + "}", "", ErrorCode::kUsage);
    return true;
  } catch (const Error&) {
    return false;
  }
}

JsonObject parse_list_entry(std::string_view line, std::initializer_list<std::string_view> keys,
                            const std::string& where, const std::string& remedy) {
  const JsonObject entry = parse(line, where, remedy);
  for (const std::string& key : entry.keys()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    throw Error(ErrorCode::kUsage,
                where + ": unknown key " + json_quote(key) + "; there are " + join(keys));
  }
  return entry;
}

}  // namespace caption::pipeline
