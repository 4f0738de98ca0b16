// base/json.h: typed, validated reading of JSON, and the functions needed to write it.
//
// Only json.cpp includes nlohmann-json. Hugging Face configs omit keys whose value is the class
// default, so the getters take a fallback.
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

// The type of the value under a key; null counts as absent.
enum class JsonType { kAbsent, kBool, kNumber, kString, kList, kObject };

// An object inside a JSON text; cheap to copy, because copies share the parsed document. Immutable,
// thread-safe.
// Every getter throws Error(code) "config.json: text_config.hidden_size: expected ..., found ..."
// when the key is present with another type or out of range; `code` is the one given to open() or
// parse().
class JsonObject {
 public:
  // Throws Error(code) for a syntax error (with line and column), invalid UTF-8, nesting deeper
  // than 64 levels, duplicate keys, or a root that is not an object. open() also throws as
  // read_text_file().
  static JsonObject open(const std::filesystem::path& path, ErrorCode code);
  static JsonObject parse(std::string_view text, std::string name_for_errors, ErrorCode code);

  bool has(std::string_view key) const;  // present and not null
  JsonType type_of(std::string_view key) const;
  // Whether the value is absent, null, false, or an empty string, list or object.
  bool is_blank(std::string_view key) const;
  std::int64_t get_int(std::string_view key, std::int64_t fallback, std::int64_t min,
                       std::int64_t max) const;
  std::int64_t require_int(std::string_view key, std::int64_t min, std::int64_t max) const;
  double get_double(std::string_view key, double fallback) const;  // finite
  double require_double(std::string_view key, double min, double max) const;
  bool get_bool(std::string_view key, bool fallback) const;
  std::string get_string(std::string_view key, std::string_view fallback) const;
  std::string require_string(std::string_view key) const;
  // The list is empty when the key is absent. A single value counts as a list of one.
  std::vector<double> get_doubles(std::string_view key) const;
  std::vector<std::int64_t> get_ints(std::string_view key) const;
  std::vector<std::string> get_strings(std::string_view key) const;
  std::optional<JsonObject> get_object(std::string_view key) const;
  std::vector<JsonObject> get_objects(std::string_view key) const;  // empty when absent
  // The string at a dotted path such as "annotation.description_kr"; a number in the path indexes a
  // list. std::nullopt when a part is missing.
  std::optional<std::string> find_string_at(std::string_view dotted_path) const;
  std::vector<std::string> keys() const;  // ascending by byte value
  const std::string& name() const;        // for messages: "config.json: text_config"

 private:
  struct Node;
  explicit JsonObject(std::shared_ptr<const Node> node);
  std::shared_ptr<const Node> node_;
};

// A JSON string literal with its quotes. UTF-8 is not escaped, control characters are, and invalid
// bytes become U+FFFD.
std::string json_quote(std::string_view text);
inline constexpr std::size_t kMaxQuotedBytes = 80;  // limits what a message quotes of a file
// The same of the characters in the first `max_bytes` bytes, and "..." if there are more: for text
// of a file in a message, which is one line.
std::string json_quote_start(std::string_view text, std::size_t max_bytes = kMaxQuotedBytes);

// The shortest decimal that reads back as the same double; "null" for NaN and infinities, which
// JSON does not have.
std::string json_number(double value);

// json_number of the value rounded to `decimals` places.
std::string json_number(double value, int decimals);

}  // namespace caption
