// base/json_writer.h: writes JSON value by value and inserts commas and quotes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace caption {

// The caller must open and close objects and lists in the right order.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open("{"); }  // the root, or an item of a list
  JsonWriter& begin_object(std::string_view key) { return open(json_quote(key) + ":{"); }
  JsonWriter& end_object() { return close("}"); }
  JsonWriter& begin_list(std::string_view key) { return open(json_quote(key) + ":["); }
  JsonWriter& end_list() { return close("]"); }

  JsonWriter& add(std::string_view key, std::int64_t value) {
    return write(key, std::to_string(value));
  }
  JsonWriter& add(std::string_view key, double value) { return write(key, json_number(value)); }
  JsonWriter& add(std::string_view key, std::string_view value) {
    return write(key, json_quote(value));
  }
  JsonWriter& add(std::string_view key, const char* value) { return write(key, json_quote(value)); }
  JsonWriter& add(std::string_view key, bool value) { return write(key, value ? "true" : "false"); }
  JsonWriter& add_item(std::string_view value) { return append(json_quote(value)); }
  JsonWriter& add_item(std::int64_t value) { return append(std::to_string(value)); }

  const std::string& text() const { return text_; }

 private:
  JsonWriter& write(std::string_view key, const std::string& value) {
    return append(json_quote(key) + ":" + value);
  }
  JsonWriter& append(const std::string& piece) {
    if (needs_comma_) text_ += ',';
    text_ += piece;
    needs_comma_ = true;
    return *this;
  }
  JsonWriter& open(const std::string& piece) {
    append(piece);
    needs_comma_ = false;
    return *this;
  }
  JsonWriter& close(std::string_view bracket) {
    text_ += bracket;
    needs_comma_ = true;
    return *this;
  }

  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace caption
