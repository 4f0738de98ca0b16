#include "weights/gguf.h"

#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/utf8.h"

namespace caption::weights {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kMaxEntries = std::uint64_t{1} << 20;
constexpr std::uint32_t kMaxAxes = 8;
constexpr std::int64_t kMaxParameters = std::int64_t{1} << 50;

// Types of metadata values.
constexpr std::uint32_t kString = 8;
constexpr std::uint32_t kArray = 9;
// Bytes of a value by its type; 0 for the two above.
constexpr std::array<std::uint64_t, 13> kValueBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// Reads little-endian values one after the other.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::string file)
      : bytes_(bytes), file_(std::move(file)) {}

  template <class T>
  T number() {
    const std::span<const std::byte> bytes = take(sizeof(T));
    T value{};
    std::memcpy(&value, bytes.data(), sizeof(T));  // every machine of this build is little-endian
    return value;
  }
  std::string text() {
    const std::span<const std::byte> bytes = take(number<std::uint64_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // Returns the string of a value; skips a value of another type and returns an empty text.
  std::string value() {
    const auto type = number<std::uint32_t>();
    if (type == kString) return text();
    if (type == kArray) {
      skip_array();
    } else {
      take(value_bytes(type));
    }
    return {};
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kBadModel, file_ + ": " + what);
  }

 private:
  std::span<const std::byte> take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail("the header of this GGUF file ends in the middle");
    const std::span<const std::byte> taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  std::uint64_t value_bytes(std::uint32_t type) const {
    if (type >= kValueBytes.size() || kValueBytes[type] == 0) {
      fail("the header of this GGUF file holds a value of type " + std::to_string(type));
    }
    return kValueBytes[type];
  }
  void skip_array() {
    const auto type = number<std::uint32_t>();
    const auto count = number<std::uint64_t>();
    if (type == kString) {
      for (std::uint64_t i = 0; i < count; ++i) take(number<std::uint64_t>());
      return;
    }
    const std::uint64_t size = value_bytes(type);
    if (count > bytes_.size() / size) fail("the header of this GGUF file ends in the middle");
    take(count * size);
  }

  std::span<const std::byte> bytes_;
  std::string file_;
  std::size_t at_ = 0;
};

std::int64_t read_num_parameters(Reader& reader) {
  const auto num_axes = reader.number<std::uint32_t>();
  if (num_axes > kMaxAxes) reader.fail("a tensor of this GGUF file has too many axes");
  std::int64_t count = 1;
  for (std::uint32_t axis = 0; axis < num_axes; ++axis) {
    const auto extent = static_cast<std::int64_t>(reader.number<std::uint64_t>());
    if (extent < 1 || extent > kMaxParameters / count) {
      reader.fail("a tensor of this GGUF file has an impossible shape");
    }
    count *= extent;
  }
  return count;
}

}  // namespace

GgufSummary read_gguf_summary(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  Reader reader(mapped.bytes(), file.string());
  const std::string_view begin(reinterpret_cast<const char*>(mapped.bytes().data()),
                               mapped.bytes().size());
  if (!begin.starts_with(kMagic)) reader.fail("is no GGUF file");
  GgufSummary summary;
  static_cast<void>(reader.number<std::uint32_t>());
  summary.version = reader.number<std::uint32_t>();
  if (summary.version < 2 || summary.version > 3) {
    reader.fail("is a GGUF file of version " + std::to_string(summary.version) +
                "; versions 2 and 3 are known");
  }
  const auto num_tensors = reader.number<std::uint64_t>();
  const auto num_entries = reader.number<std::uint64_t>();
  if (num_tensors > kMaxEntries || num_entries > kMaxEntries) {
    reader.fail("the header of this GGUF file has too many entries");
  }
  summary.num_tensors = static_cast<std::int64_t>(num_tensors);
  summary.file_bytes = std::ssize(mapped.bytes());
  for (std::uint64_t i = 0; i < num_entries; ++i) {
    const std::string key = reader.text();
    std::string value = reader.value();
    if (!is_valid_utf8(value)) continue;
    if (key == "general.architecture") summary.architecture = std::move(value);
    if (key == "general.name") summary.name = std::move(value);
  }
  for (std::uint64_t i = 0; i < num_tensors; ++i) {
    static_cast<void>(reader.text());  // its name
    const std::int64_t count = read_num_parameters(reader);
    if (count > kMaxParameters - summary.num_parameters) {
      reader.fail("a tensor of this GGUF file has an impossible shape");
    }
    summary.num_parameters += count;
    static_cast<void>(reader.number<std::uint32_t>());  // its type
    static_cast<void>(reader.number<std::uint64_t>());  // its offset
  }
  return summary;
}

}  // namespace caption::weights
