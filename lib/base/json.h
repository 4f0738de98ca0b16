// base/json.h: typed, validated reading of JSON, and the few pieces needed to write it.
//
// nlohmann-json stays behind this door. Hugging Face configs omit keys whose value is the class
// default, so every getter takes one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace caption {

// An object inside a JSON text; cheap to copy, shares the parsed document, immutable, thread-safe.
// Every getter throws Error(code) "config.json: text_config.hidden_size: expected ..., found ..."
// when the key is there with another type or outside its range; `code` is given at parsing.
class JsonObject {
 public:
  // Throws Error(code) for broken JSON (with line and column), invalid UTF-8, nesting beyond 64,
  // duplicate keys, or a root that is no object. open() also throws as read_text_file().
  static JsonObject open(const std::filesystem::path& path, ErrorCode code);
  static JsonObject parse(std::string_view text, std::string name_for_errors, ErrorCode code);

  bool has(std::string_view key) const;  // present and not null
  std::int64_t get_int(std::string_view key, std::int64_t fallback, std::int64_t min,
                       std::int64_t max) const;
  std::int64_t require_int(std::string_view key, std::int64_t min, std::int64_t max) const;
  double get_double(std::string_view key, double fallback) const;  // finite
  bool get_bool(std::string_view key, bool fallback) const;
  std::string get_string(std::string_view key, std::string_view fallback) const;
  std::string require_string(std::string_view key) const;
  // Empty when absent. A single value counts as a list of one.
  std::vector<double> get_doubles(std::string_view key) const;
  std::vector<std::int64_t> get_ints(std::string_view key) const;
  std::vector<std::string> get_strings(std::string_view key) const;
  std::optional<JsonObject> get_object(std::string_view key) const;
  std::vector<JsonObject> get_objects(std::string_view key) const;  // a list of objects
  // Follows "annotation.description_kr"; a number in the path indexes a list. std::nullopt when a
  // part is missing.
  std::optional<std::string> find_string_at(std::string_view dotted_path) const;
  std::vector<std::string> keys() const;  // in the document's order of names (sorted)
  const std::string& name() const;        // for messages: "config.json: text_config"

 private:
  struct Node;
  explicit JsonObject(std::shared_ptr<const Node> node);
  std::shared_ptr<const Node> node_;
};

// A JSON string literal with its quotes; UTF-8 stays as it is, control characters are escaped,
// invalid bytes become U+FFFD.
std::string json_quote(std::string_view text);

// Shortest decimal that reads back as the same double; NaN and infinities (not JSON) as null.
std::string json_number(double value);

// json_number of the value rounded to `decimals` places.
std::string json_number(double value, int decimals);

}  // namespace caption
