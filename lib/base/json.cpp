#include "base/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/internal/json_syntax.h"
#include "base/mend_advice.h"
#include "base/utf8.h"

namespace caption {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxNesting = 64;

std::string describe(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::boolean: return value.get<bool>() ? "true" : "false";
    case Json::value_t::number_integer: return std::to_string(value.get<std::int64_t>());
    case Json::value_t::number_unsigned: return std::to_string(value.get<std::uint64_t>());
    case Json::value_t::number_float: return value.dump();  // 512.0 keeps its ".0"
    case Json::value_t::string:
      return "string " + json_quote_start(value.get_ref<const std::string&>());
    case Json::value_t::array: return "a list of " + std::to_string(value.size());
    case Json::value_t::object: return "an object";
    default: return "an unknown value";
  }
}

// The message of an nlohmann exception for a number out of the range of a double, without its
// prefix and cut to kMaxReasonBytes: nlohmann quotes the whole number.
std::string reason_of(const nlohmann::detail::exception& exception) {
  const std::string text = exception.what();
  const std::size_t end_of_tag = text.find("] ");
  std::string reason = end_of_tag == std::string::npos ? text : text.substr(end_of_tag + 2);
  constexpr std::size_t kMaxReasonBytes = 200;
  if (reason.size() > kMaxReasonBytes) reason = reason.substr(0, kMaxReasonBytes) + "...";
  std::replace_if(
      reason.begin(), reason.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  return make_valid_utf8(reason);
}

// Builds the document from the parser's events, in linear time, which the parser with a callback
// does not: it searches a container for discarded values after each object in it. Refuses what
// nlohmann-json accepts: duplicate keys (the last one would win) and deep nesting.
class DocumentBuilder final : public nlohmann::json_sax<Json> {
 public:
  DocumentBuilder(std::string_view text, std::string_view name, ErrorCode code)
      : text_(text), name_(name), code_(code) {}

  Json take() { return std::move(document_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string& /*text*/) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t& value) override { return add(Json::binary(value)); }

  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool key(std::string& key) override {
    auto [element, is_new] = open_.back()->get_ref<Json::object_t&>().emplace(key, nullptr);
    if (!is_new) fail("key " + json_quote_start(key) + " appears twice");
    member_ = &element->second;
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t /*position*/, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& exception) override {
    const auto* syntax = dynamic_cast<const Json::parse_error*>(&exception);
    fail("not valid JSON: " +
         (syntax != nullptr ? describe_json_error(text_, syntax->byte) : reason_of(exception)));
  }

  // `byte` counts from 1.
  [[noreturn]] void refuse_syntax(std::size_t byte) const {
    fail("not valid JSON: " + describe_json_error(text_, byte));
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(code_, name_ + ": " + message + mend_advice(code_));
  }

  // Puts a value where the text has it, and returns its place, which stays until the next value.
  Json& place(Json value) {
    if (open_.empty()) return document_ = std::move(value);
    if (open_.back()->is_object()) return *member_ = std::move(value);
    open_.back()->push_back(std::move(value));
    return open_.back()->back();
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json container) {
    if (open_.size() == kMaxNesting) {
      fail("nested deeper than " + std::to_string(kMaxNesting) + " levels");
    }
    open_.push_back(&place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  std::string name_;
  ErrorCode code_;
  Json document_;
  // The open containers from the outermost one. An open container is the last element of the one
  // around it, which gets no other element, and so does not move it, before it is closed.
  std::vector<Json*> open_;
  Json* member_ = nullptr;  // the value of the key that was read last
};

Json parse_guarded(std::string_view text, const std::string& name, ErrorCode code) {
  if (text.starts_with("version https://git-lfs")) {
    throw Error(code,
                name + ": is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`");
  }
  DocumentBuilder builder(text, name, code);
  Json::sax_parse(text.begin(), text.end(), &builder);
  // The parser takes a NUL byte behind the document for the end of the text.
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos) {
    builder.refuse_syntax(at + 1);
  }
  return builder.take();
}

}  // namespace

struct JsonObject::Node {
  std::shared_ptr<const Json> document;
  const Json* object;  // points into `document`
  std::string name;    // "config.json: text_config"
  bool is_root;
  ErrorCode code;

  // The value under `key`, or null when it is absent or JSON's null.
  const Json* find(std::string_view key) const {
    const auto it = object->find(key);
    return it == object->end() || it->is_null() ? nullptr : &*it;
  }

  // Throws for a key without a value.
  [[noreturn]] void fail_absent(std::string_view key, std::string_view wanted) const {
    fail(key, (object->contains(key) ? "is null; " : "is missing; ") + std::string(wanted) +
                  " is needed");
  }

  std::string path_to(std::string_view key) const {
    std::string path = name + (is_root ? ": " : ".");
    path += key.size() <= kMaxQuotedBytes ? make_valid_utf8(key) : json_quote_start(key);
    return path;
  }

  [[noreturn]] void fail(std::string_view key, const std::string& message) const {
    throw Error(code, path_to(key) + ": " + message + mend_advice(code));
  }
  [[noreturn]] void fail_type(std::string_view key, std::string_view wanted,
                              const Json& found) const {
    fail(key, "expected " + std::string(wanted) + ", found " + describe(found));
  }

  std::int64_t to_int(std::string_view key, const Json& value) const {
    if (!value.is_number_integer()) fail_type(key, "an integer", value);
    if (value.is_number_unsigned() &&
        value.get<std::uint64_t>() >
            static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail_type(key, "an integer of 64 bits", value);
    }
    return value.get<std::int64_t>();
  }

  // The result is always finite: the parser rejects numbers out of the range of a double.
  double to_double(std::string_view key, const Json& value) const {
    if (!value.is_number()) fail_type(key, "a number", value);
    return value.get<double>();
  }

  std::string to_string(std::string_view key, const Json& value) const {
    if (!value.is_string()) fail_type(key, "a string", value);
    return value.get<std::string>();
  }

  // Applies `convert` to each element of a list, or to a single value as a list of one.
  template <class Convert>
  auto to_list(std::string_view key, Convert convert) const {
    std::vector<decltype(convert(*object))> list;
    const Json* value = find(key);
    if (value == nullptr) return list;
    if (!value->is_array()) {
      list.push_back(convert(*value));
      return list;
    }
    list.reserve(value->size());
    for (const Json& element : *value) list.push_back(convert(element));
    return list;
  }
};

JsonObject::JsonObject(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

JsonObject JsonObject::parse(std::string_view text, std::string name_for_errors, ErrorCode code) {
  auto document = std::make_shared<const Json>(parse_guarded(text, name_for_errors, code));
  if (!document->is_object()) {
    throw Error(code, name_for_errors + ": expected an object, found " + describe(*document) +
                          mend_advice(code));
  }
  const Json* root = document.get();
  return JsonObject(std::make_shared<const Node>(
      Node{std::move(document), root, std::move(name_for_errors), true, code}));
}

bool JsonObject::has(std::string_view key) const { return node_->find(key) != nullptr; }

JsonType JsonObject::type_of(std::string_view key) const {
  const Json* value = node_->find(key);
  if (value == nullptr) return JsonType::kAbsent;
  if (value->is_boolean()) return JsonType::kBool;
  if (value->is_number()) return JsonType::kNumber;
  if (value->is_string()) return JsonType::kString;
  return value->is_array() ? JsonType::kList : JsonType::kObject;
}

bool JsonObject::is_blank(std::string_view key) const {
  const Json* value = node_->find(key);
  if (value == nullptr) return true;
  if (value->is_boolean()) return !value->get<bool>();
  if (value->is_string()) return value->get_ref<const std::string&>().empty();
  return value->is_structured() && value->empty();
}

std::int64_t JsonObject::get_int(std::string_view key, std::int64_t fallback, std::int64_t min,
                                 std::int64_t max) const {
  return has(key) ? require_int(key, min, max) : fallback;
}

std::int64_t JsonObject::require_int(std::string_view key, std::int64_t min,
                                     std::int64_t max) const {
  const Json* value = node_->find(key);
  if (value == nullptr) node_->fail_absent(key, "an integer");
  const std::int64_t number = node_->to_int(key, *value);
  if (number < min || number > max) {
    node_->fail(key, "expected " + std::to_string(min) + " to " + std::to_string(max) + ", found " +
                         std::to_string(number));
  }
  return number;
}

double JsonObject::get_double(std::string_view key, double fallback) const {
  const Json* value = node_->find(key);
  return value == nullptr ? fallback : node_->to_double(key, *value);
}

double JsonObject::require_double(std::string_view key, double min, double max) const {
  const Json* value = node_->find(key);
  if (value == nullptr) node_->fail_absent(key, "a number");
  const double number = node_->to_double(key, *value);
  if (number < min || number > max) {
    node_->fail(key, "expected " + json_number(min) + " to " + json_number(max) + ", found " +
                         json_number(number));
  }
  return number;
}

bool JsonObject::get_bool(std::string_view key, bool fallback) const {
  const Json* value = node_->find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) node_->fail_type(key, "true or false", *value);
  return value->get<bool>();
}

std::string JsonObject::get_string(std::string_view key, std::string_view fallback) const {
  const Json* value = node_->find(key);
  return value == nullptr ? std::string(fallback) : node_->to_string(key, *value);
}

std::string JsonObject::require_string(std::string_view key) const {
  const Json* value = node_->find(key);
  if (value == nullptr) node_->fail_absent(key, "a string");
  return node_->to_string(key, *value);
}

std::vector<double> JsonObject::get_doubles(std::string_view key) const {
  return node_->to_list(key, [&](const Json& value) { return node_->to_double(key, value); });
}

std::vector<std::int64_t> JsonObject::get_ints(std::string_view key) const {
  return node_->to_list(key, [&](const Json& value) { return node_->to_int(key, value); });
}

std::vector<std::string> JsonObject::get_strings(std::string_view key) const {
  return node_->to_list(key, [&](const Json& value) { return node_->to_string(key, value); });
}

std::optional<JsonObject> JsonObject::get_object(std::string_view key) const {
  const Json* value = node_->find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) node_->fail_type(key, "an object", *value);
  return JsonObject(std::make_shared<const Node>(
      Node{node_->document, value, node_->path_to(key), false, node_->code}));
}

std::vector<JsonObject> JsonObject::get_objects(std::string_view key) const {
  std::vector<JsonObject> list;
  const Json* value = node_->find(key);
  if (value == nullptr) return list;
  if (!value->is_array()) node_->fail_type(key, "a list of objects", *value);
  for (const Json& element : *value) {
    const std::string indexed = std::string(key) + "[" + std::to_string(list.size()) + "]";
    if (!element.is_object()) node_->fail_type(indexed, "an object", element);
    list.push_back(JsonObject(std::make_shared<const Node>(
        Node{node_->document, &element, node_->path_to(indexed), false, node_->code})));
  }
  return list;
}

std::optional<std::string> JsonObject::find_string_at(std::string_view dotted_path) const {
  const Json* value = node_->object;
  for (std::string_view rest = dotted_path;;) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    if (value->is_object()) {
      const auto it = value->find(part);
      if (it == value->end()) return std::nullopt;
      value = &*it;
    } else if (value->is_array()) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
      if (error != std::errc() || end != part.data() + part.size() || index >= value->size()) {
        return std::nullopt;
      }
      value = &(*value)[index];
    } else {
      return std::nullopt;
    }
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  if (value->is_null()) return std::nullopt;
  return node_->to_string(dotted_path, *value);
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> names;
  for (const auto& item : node_->object->items()) names.push_back(item.key());
  return names;
}

const std::string& JsonObject::name() const { return node_->name; }

std::string json_quote(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : make_valid_utf8(text)) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default: {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20) {
          out += "\\u00";
          out += kHex[byte >> 4];
          out += kHex[byte & 0xF];
        } else {
          out += c;
        }
      }
    }
  }
  out += '"';
  return out;
}

std::string json_quote_start(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return json_quote(text);
  const std::string_view start = text.substr(0, max_bytes);
  return json_quote(start.substr(0, complete_utf8_prefix(start))) + "...";
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), result.ptr);
}

std::string json_number(double value, int decimals) {
  // From 2^53 on every double is an integer, and 17 decimals hold every double below 1.
  constexpr double kWholeFrom = 0x1p53;
  if (!std::isfinite(value) || std::abs(value) >= kWholeFrom || decimals > 17) {
    return json_number(value);
  }
  std::array<char, 64> text{};  // a sign, 16 digits, a point, 17 places
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value,
                                    std::chars_format::fixed, std::max(decimals, 0));
  double rounded = 0.0;
  std::from_chars(text.data(), result.ptr, rounded);
  return json_number(rounded == 0.0 ? 0.0 : rounded);  // no "-0"
}

}  // namespace caption
