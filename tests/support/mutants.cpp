#include "tests/support/mutants.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <iterator>
#include <utility>

#include "weights/gguf_metadata.h"
#include "weights/internal/gguf_parser.h"

namespace caption::testing {
namespace {

// Walks the header of a valid file and notes where its numbers are.
class GgufWalk {
 public:
  explicit GgufWalk(std::string_view file) : file_(file) {}

  std::vector<GgufField> fields() {
    at_ = 4;
    take(4, false);  // the version
    const std::uint64_t num_tensors = take(8, false);
    const std::uint64_t num_pairs = take(8, false);
    for (std::uint64_t i = 0; i < num_pairs; ++i) take_pair();
    for (std::uint64_t i = 0; i < num_tensors; ++i) {
      take_text();
      const std::uint64_t rank = take(4, false);
      for (std::uint64_t axis = 0; axis < rank; ++axis) take(8, false);
      take(4, true);
      take(8, false);
    }
    return std::move(fields_);
  }

 private:
  std::uint64_t take(std::size_t num_bytes, bool is_type) {
    std::uint64_t value = 0;
    std::memcpy(&value, file_.data() + at_, num_bytes);
    fields_.push_back({at_, num_bytes, is_type});
    at_ += num_bytes;
    return value;
  }
  void take_text() { at_ += take(8, false); }
  void take_pair() {
    take_text();
    const auto type = static_cast<weights::GgufType>(take(4, true));
    if (type == weights::GgufType::kString) return take_text();
    if (type != weights::GgufType::kArray) {
      take(weights::gguf_fixed_bytes(type), false);
      return;
    }
    take_array();
  }
  void take_array() {
    const auto element = static_cast<weights::GgufType>(take(4, true));
    const std::uint64_t count = take(8, false);
    if (const std::size_t fixed = weights::gguf_fixed_bytes(element); fixed != 0) {
      at_ += count * fixed;
      return;
    }
    const std::size_t begin = fields_.size();
    constexpr std::size_t kNoted = 4;  // a few fields of a vocabulary are enough
    for (std::uint64_t i = 0; i < count; ++i) {
      if (element == weights::GgufType::kString) take_text();
      if (element == weights::GgufType::kArray) take_array();
      fields_.resize(std::min(fields_.size(), begin + kNoted));
    }
  }

  std::string_view file_;
  std::size_t at_ = 0;
  std::vector<GgufField> fields_;
};

bool is_part_of_number(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

struct Range {
  std::size_t begin = 0;
  std::size_t length = 0;
};

// The numbers of a JSON text without their signs and fractions, and its strings with their quotes.
std::vector<Range> find_tokens(std::string_view text) {
  std::vector<Range> tokens;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    if (text[i] == '"') {
      end = std::min(text.find('"', i + 1), text.size() - 1) + 1;
      tokens.push_back({i, end - i});
    } else if (is_part_of_number(text[i])) {
      while (end < text.size() && is_part_of_number(text[end])) ++end;
      tokens.push_back({i, end - i});
    }
    i = end;
  }
  return tokens;
}

constexpr const char* kValues[] = {"0",
                                   "1",
                                   "-1",
                                   "2",
                                   "16",
                                   "127",
                                   "65536",
                                   "1048576",
                                   "2147483647",
                                   "2147483648",
                                   "4294967296",
                                   "4611686018427387904",
                                   "9223372036854775807",
                                   "18446744073709551615",
                                   "1e308",
                                   "0.5",
                                   "null",
                                   "true",
                                   "[]",
                                   "{}",
                                   "[1,[2,[3]]]",
                                   "\"\"",
                                   "\"F32\"",
                                   "\"BF16\"",
                                   "\"F16\"",
                                   "\"I8\"",
                                   "\"U8\"",
                                   "\"I32\"",
                                   "\"I64\"",
                                   "\"F8_E4M3\"",
                                   "\"group\"",
                                   "\"channel\"",
                                   "\"tensor\"",
                                   "\"gptq_v2\"",
                                   "\"fp8\"",
                                   "\"awq\"",
                                   "\"gptq\"",
                                   "\"bitsandbytes\"",
                                   "\"pack-quantized\"",
                                   "\"int-quantized\"",
                                   "\"float-quantized\""};

constexpr std::uint32_t kNumTensorTypes = 42;  // those of ggml, with gaps
constexpr std::uint32_t kNumValueTypes = 14;

}  // namespace

std::vector<GgufField> find_gguf_fields(std::string_view file) { return GgufWalk(file).fields(); }

std::size_t Mutator::below(std::size_t limit) {
  state_ += 0x9E3779B97F4A7C15u;  // splitmix64
  std::uint64_t mixed = state_;
  mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
  return static_cast<std::size_t>((mixed ^ mixed >> 31) % limit);
}

std::string Mutator::flip_bits(std::string bytes) {
  if (bytes.empty()) return bytes;
  // Half of them in the first part, where a file says what it holds.
  const std::size_t end = below(2) == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 512);
  for (std::size_t times = below(8) + 1; times > 0; --times) {
    char& byte = bytes[below(end)];
    byte = static_cast<char>(static_cast<unsigned char>(byte) ^ 1u << below(8));
  }
  return bytes;
}

std::string Mutator::cut(std::string bytes) {
  bytes.resize(below(bytes.size() + 1));
  return bytes;
}

std::string Mutator::splice(std::string bytes, const std::string& other) {
  if (other.empty()) return bytes;
  const std::size_t from = below(other.size());
  const std::size_t length = std::min(other.size() - from, below(256) + 1);
  const std::size_t to = below(bytes.size() + 1);
  const std::size_t replaced = below(2) == 0 ? 0 : std::min(length, bytes.size() - to);
  return bytes.replace(to, replaced, other, from, length);
}

std::uint64_t Mutator::false_number(std::uint64_t old, std::size_t file_bytes) {
  const std::uint64_t size = file_bytes;
  const std::array<std::uint64_t, 20> numbers = {
      0,          1,         2,           old + 1,  old - 1,    old * 2,
      old / 2,    size,      size + 1,    size / 4, 1u << 16,   std::uint64_t{1} << 24,
      1u << 30,   1u << 31,  0xFFFFFFFFu, ~0ull,    1ull << 32, 1ull << 62,
      1ull << 63, ~0ull >> 1};
  return numbers[below(numbers.size())];
}

std::string Mutator::change_gguf_fields(std::string bytes) {
  const std::vector<GgufField> fields = find_gguf_fields(bytes);
  const std::size_t file_bytes = bytes.size();
  for (std::size_t times = below(2) + 1; times > 0; --times) {
    const GgufField& field = fields[below(fields.size())];
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + field.at, field.num_bytes);
    value = field.is_type ? below(below(2) == 0 ? kNumTensorTypes : kNumValueTypes)
                          : false_number(value, file_bytes);
    std::memcpy(bytes.data() + field.at, &value, field.num_bytes);
  }
  return bytes;
}

std::string Mutator::gguf(const std::string& good, const std::string& other) {
  switch (below(8)) {
    case 0:
    case 1: return flip_bits(good);
    case 2: return cut(good);
    case 3: return splice(good, other);
    default: return change_gguf_fields(good);
  }
}

std::string Mutator::change_token(std::string text) {
  const std::vector<Range> tokens = find_tokens(text);
  if (tokens.empty()) return text;
  const Range token = tokens[below(tokens.size())];
  if (below(4) == 0) {
    const Range other = tokens[below(tokens.size())];
    return text.replace(token.begin, token.length, text.substr(other.begin, other.length));
  }
  return text.replace(token.begin, token.length, kValues[below(std::size(kValues))]);
}

std::string Mutator::json(const std::string& good, const std::string& other) {
  switch (below(8)) {
    case 0: return flip_bits(good);
    case 1: return cut(good);
    case 2: return splice(good, other);
    case 3: return change_token(change_token(good));
    default: return change_token(good);
  }
}

std::string Mutator::safetensors(const std::string& good, const std::string& other) {
  constexpr std::size_t kLengthBytes = 8;
  const std::size_t kind = below(9);
  if (kind == 0 || kind == 8) return flip_bits(good);
  if (kind == 1) return cut(good);
  if (kind == 2) return splice(good, other);
  std::uint64_t length = 0;
  std::memcpy(&length, good.data(), kLengthBytes);
  std::string header = good.substr(kLengthBytes, static_cast<std::size_t>(length));
  const std::string tensors = good.substr(kLengthBytes + header.size());
  if (kind == 3) {
    length = false_number(length, good.size());
  } else {
    header = change_token(std::move(header));
    // As long as before where that is possible, so that the tensors keep their places.
    const std::size_t room = static_cast<std::size_t>(length);
    while (header.size() > room && header.back() == ' ') header.pop_back();
    header.resize(std::max(room, (header.size() + 7) / 8 * 8), ' ');
    length = header.size();
  }
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + header + tensors;
}

}  // namespace caption::testing
