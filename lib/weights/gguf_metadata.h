// weights/gguf_metadata.h: the keys and values of a GGUF file, which describe the model.
//
// Values borrow the bytes of the file. The getters convert between types of numbers: a file of
// another tool may hold a count as u32, i32 or u64.
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caption::weights {

enum class GgufType : std::uint8_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

std::string_view gguf_type_name(GgufType type);  // "u32"

struct GgufValue {
  std::string_view key;
  GgufType type = GgufType::kU8;
  GgufType element_type = GgufType::kU8;  // type of an array's elements
  std::uint64_t num_elements = 1;         // number of an array's elements
  // The value as it is in the file: the text of a string, all elements of an array.
  std::span<const std::byte> bytes;
};

// Immutable, thread-safe. Valid while the file is mapped. Every getter throws Error(kBadModel)
// "model.gguf: KEY: expected ..., found ...; kConvertAgain" when the key has another type or is out
// of range.
class GgufMetadata {
 public:
  GgufMetadata() = default;
  // `values` are valid, sorted by key and of distinct keys. `file_name` is for messages.
  GgufMetadata(std::vector<GgufValue> values, std::string file_name);

  std::span<const GgufValue> values() const { return values_; }
  const std::string& file_name() const { return file_name_; }
  const GgufValue* find(std::string_view key) const;  // nullptr when it is absent
  bool has(std::string_view key) const { return find(key) != nullptr; }

  std::int64_t get_int(std::string_view key, std::int64_t fallback, std::int64_t min,
                       std::int64_t max) const;
  std::int64_t require_int(std::string_view key, std::int64_t min, std::int64_t max) const;
  double get_double(std::string_view key, double fallback) const;  // finite
  double require_double(std::string_view key) const;
  bool get_bool(std::string_view key, bool fallback) const;
  // Valid UTF-8.
  std::optional<std::string> find_string(std::string_view key) const;
  std::string get_string(std::string_view key, std::string_view fallback) const;
  std::string require_string(std::string_view key) const;

  // The elements of an array; empty when the key is absent. A single value counts as an array of
  // one. Strings borrow the file's bytes and need not be valid UTF-8.
  std::vector<std::int64_t> get_ints(std::string_view key) const;
  std::vector<double> get_doubles(std::string_view key) const;
  std::vector<bool> get_bools(std::string_view key) const;
  std::vector<std::string_view> get_strings(std::string_view key) const;

 private:
  [[noreturn]] void fail(std::string_view key, const std::string& what) const;
  [[noreturn]] void fail_type(const GgufValue& value, std::string_view expected) const;
  const GgufValue& require(std::string_view key) const;
  std::int64_t int_of(const GgufValue& value, std::int64_t min, std::int64_t max) const;
  double double_of(const GgufValue& value) const;
  std::string string_of(const GgufValue& value) const;

  std::vector<GgufValue> values_;
  std::string file_name_;
};

}  // namespace caption::weights
