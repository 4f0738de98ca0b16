// base/json_stream.h: reads a JSON text value by value, without building a document.
//
// For texts of many megabytes whose structure the caller knows, such as the vocabulary of a
// tokenizer.json; JsonObject (base/json.h) is more convenient everywhere else. The caller asks for
// the values in the order of the text:
//   stream.begin_object();
//   for (std::string key; stream.next_key(&key);) { ... read or skip the value ... }
// The readers check the syntax of what they read; skip_value() only finds the end of a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace caption {

// For use by one thread at a time. `text` must outlive the stream. Every member throws Error(code)
// "NAME: not valid JSON: ..." for a syntax error, and Error(code) "NAME: line 3, column 1: expected
// ..., found ..." for a value of another type. Does not notice duplicate keys.
class JsonStream {
 public:
  enum class Kind { kObject, kArray, kString, kNumber, kLiteral };

  JsonStream(std::string_view text, std::string name_for_errors, ErrorCode code);

  Kind peek();  // the kind of the next value
  void begin_object();
  // Reads the next key of the open object; false at its end, which is then consumed.
  bool next_key(std::string* key);
  void begin_array();
  // False at the end of the open array, which is then consumed.
  bool next_element();

  // The string without its escapes; it refers to the text or to `scratch`.
  std::string_view read_string(std::string* scratch);
  std::int64_t read_int(std::int64_t min, std::int64_t max);
  double read_double();
  // The text of the next value. Its brackets and strings are paired; nothing else is checked.
  std::string_view skip_value();
  // Throws unless only white space follows.
  void finish();

  // Throws Error(code) with the position of the value that was read last.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  [[noreturn]] void fail_syntax() const;
  [[noreturn]] void fail_type(std::string_view expected);
  void skip_space();
  char next_char();  // the next character that is not white space; fails at the end
  void expect(char c, std::string_view expected);
  void read_escape(std::string* out);
  std::uint32_t read_hex();
  std::string_view number_text();
  void skip_string();

  std::string_view text_;
  std::string name_;
  ErrorCode code_;
  std::size_t pos_ = 0;
  std::size_t value_begin_ = 0;  // where the value that was read last begins in text_
  bool is_first_ = false;        // no value of the innermost open object or array was read yet
};

}  // namespace caption
