#include "weights/gguf_metadata.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/mend_advice.h"
#include "base/utf8.h"
#include "weights/internal/gguf_parser.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();

template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// A whole number in 64 bits with its sign; nothing for another type, or a number above 2^63 - 1.
std::optional<std::int64_t> whole_number(GgufType type, const std::byte* bytes) {
  switch (type) {
    case GgufType::kU8: return load<std::uint8_t>(bytes);
    case GgufType::kI8: return load<std::int8_t>(bytes);
    case GgufType::kU16: return load<std::uint16_t>(bytes);
    case GgufType::kI16: return load<std::int16_t>(bytes);
    case GgufType::kU32: return load<std::uint32_t>(bytes);
    case GgufType::kI32: return load<std::int32_t>(bytes);
    case GgufType::kI64: return load<std::int64_t>(bytes);
    case GgufType::kU64: {
      const auto value = load<std::uint64_t>(bytes);
      if (value > static_cast<std::uint64_t>(kMaxInt)) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default: return std::nullopt;
  }
}

std::optional<double> real_number(GgufType type, const std::byte* bytes) {
  if (type == GgufType::kF32) return load<float>(bytes);
  if (type == GgufType::kF64) return load<double>(bytes);
  const auto whole = whole_number(type, bytes);
  if (!whole) return std::nullopt;
  return static_cast<double>(*whole);
}

// The elements of an array, or a single value as an array of one.
struct Elements {
  GgufType type = GgufType::kU8;
  std::uint64_t count = 0;
  const std::byte* begin = nullptr;
};

Elements elements_of(const GgufValue& value) {
  if (value.type == GgufType::kArray) {
    return {value.element_type, value.num_elements, value.bytes.data()};
  }
  return {value.type, 1, value.bytes.data()};
}

}  // namespace

std::string_view gguf_type_name(GgufType type) {
  constexpr std::string_view kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<std::size_t>(type)];
}

GgufMetadata::GgufMetadata(std::vector<GgufValue> values, std::string file_name)
    : values_(std::move(values)), file_name_(std::move(file_name)) {}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = std::lower_bound(
      values_.begin(), values_.end(), key,
      [](const GgufValue& value, std::string_view wanted) { return value.key < wanted; });
  return found == values_.end() || found->key != key ? nullptr : &*found;
}

void GgufMetadata::fail(std::string_view key, const std::string& what) const {
  constexpr std::size_t kMaxShown = 120;  // a key of a file may have 65535 characters
  const std::string shown =
      std::string(key.substr(0, kMaxShown)) + (key.size() > kMaxShown ? "..." : "");
  throw Error(ErrorCode::kBadModel, file_name_ + ": " + shown + ": " + what + "; " + kConvertAgain);
}

void GgufMetadata::fail_type(const GgufValue& value, std::string_view expected) const {
  std::string found(gguf_type_name(value.type));
  if (value.type == GgufType::kArray) {
    found += " of " + std::string(gguf_type_name(value.element_type));
  }
  fail(value.key, "expected " + std::string(expected) + ", found " + found);
}

const GgufValue& GgufMetadata::require(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) fail(key, "is missing");
  return *value;
}

std::int64_t GgufMetadata::int_of(const GgufValue& value, std::int64_t min,
                                  std::int64_t max) const {
  const auto whole = whole_number(value.type, value.bytes.data());
  if (!whole && value.type != GgufType::kU64) fail_type(value, "a whole number");
  if (!whole || *whole < min || *whole > max) {
    fail(value.key, "expected " + std::to_string(min) + " to " + std::to_string(max) + ", found " +
                        (whole ? std::to_string(*whole) : "a number above 2^63"));
  }
  return *whole;
}

double GgufMetadata::double_of(const GgufValue& value) const {
  const auto number = real_number(value.type, value.bytes.data());
  if (!number) fail_type(value, "a number");
  if (!std::isfinite(*number)) fail(value.key, "is not a finite number");
  return *number;
}

std::string GgufMetadata::string_of(const GgufValue& value) const {
  if (value.type != GgufType::kString) fail_type(value, "a string");
  std::string text(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  if (!is_valid_utf8(text)) fail(value.key, "is not valid UTF-8");
  return text;
}

std::int64_t GgufMetadata::get_int(std::string_view key, std::int64_t fallback, std::int64_t min,
                                   std::int64_t max) const {
  const GgufValue* const value = find(key);
  return value == nullptr ? fallback : int_of(*value, min, max);
}

std::int64_t GgufMetadata::require_int(std::string_view key, std::int64_t min,
                                       std::int64_t max) const {
  return int_of(require(key), min, max);
}

double GgufMetadata::get_double(std::string_view key, double fallback) const {
  const GgufValue* const value = find(key);
  return value == nullptr ? fallback : double_of(*value);
}

double GgufMetadata::require_double(std::string_view key) const { return double_of(require(key)); }

bool GgufMetadata::get_bool(std::string_view key, bool fallback) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return fallback;
  if (value->type != GgufType::kBool) fail_type(*value, "a bool");
  return value->bytes[0] != std::byte{0};
}

std::optional<std::string> GgufMetadata::find_string(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  return string_of(*value);
}

std::string GgufMetadata::get_string(std::string_view key, std::string_view fallback) const {
  return find_string(key).value_or(std::string(fallback));
}

std::string GgufMetadata::require_string(std::string_view key) const {
  return string_of(require(key));
}

std::vector<std::int64_t> GgufMetadata::get_ints(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return {};
  const Elements elements = elements_of(*value);
  const std::size_t size_bytes = gguf_fixed_bytes(elements.type);
  std::vector<std::int64_t> numbers;
  for (std::uint64_t i = 0; i < elements.count; ++i) {
    const auto number = whole_number(elements.type, elements.begin + i * size_bytes);
    if (!number) fail_type(*value, "whole numbers below 2^63");
    if (i == 0) numbers.reserve(elements.count);
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<double> GgufMetadata::get_doubles(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return {};
  const Elements elements = elements_of(*value);
  const std::size_t size_bytes = gguf_fixed_bytes(elements.type);
  std::vector<double> numbers;
  for (std::uint64_t i = 0; i < elements.count; ++i) {
    const auto number = real_number(elements.type, elements.begin + i * size_bytes);
    if (!number) fail_type(*value, "numbers");
    if (!std::isfinite(*number)) fail(key, "has an element that is not a finite number");
    if (i == 0) numbers.reserve(elements.count);
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<bool> GgufMetadata::get_bools(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return {};
  const Elements elements = elements_of(*value);
  if (elements.type != GgufType::kBool) fail_type(*value, "bools");
  std::vector<bool> bools(elements.count);
  for (std::uint64_t i = 0; i < elements.count; ++i) bools[i] = elements.begin[i] != std::byte{0};
  return bools;
}

std::vector<std::string_view> GgufMetadata::get_strings(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return {};
  const auto* const text = reinterpret_cast<const char*>(value->bytes.data());
  if (value->type == GgufType::kString) return {std::string_view(text, value->bytes.size())};
  if (value->type != GgufType::kArray || value->element_type != GgufType::kString) {
    fail_type(*value, "strings");
  }
  std::vector<std::string_view> strings;
  strings.reserve(value->num_elements);
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < value->num_elements; ++i) {
    const auto length = load<std::uint64_t>(value->bytes.data() + at);
    at += sizeof(length);
    strings.emplace_back(text + at, length);
    at += length;
  }
  return strings;
}

}  // namespace caption::weights
