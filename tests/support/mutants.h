// tests/support/mutants.h: files changed as damage and attackers change them.
//
// A mutant is drawn from a seed: flipped bits, a cut, a piece of another file, a false number in
// the place of a count, length, axis or offset, another type. The functions that know a format find
// its fields in a valid file, so that most mutants pass the first checks of a reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace caption::testing {

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : state_(seed) {}

  // A number below `limit`, which is at least 1.
  std::size_t below(std::size_t limit);

  // `good` is a valid file; pieces come from `other`.
  std::string gguf(const std::string& good, const std::string& other);
  std::string safetensors(const std::string& good, const std::string& other);
  std::string json(const std::string& good, const std::string& other);

 private:
  std::string flip_bits(std::string bytes);
  std::string cut(std::string bytes);
  std::string splice(std::string bytes, const std::string& other);
  std::string change_token(std::string text);
  std::string change_gguf_fields(std::string bytes);
  std::uint64_t false_number(std::uint64_t old, std::size_t file_bytes);

  std::uint64_t state_;
};

// A number in the header of a valid GGUF file.
struct GgufField {
  std::size_t at = 0;
  std::size_t num_bytes = 0;
  bool is_type = false;  // whether it is the type of a value or tensor
};
std::vector<GgufField> find_gguf_fields(std::string_view file);

}  // namespace caption::testing
