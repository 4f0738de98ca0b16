#include "weights/internal/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/mend_advice.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {
namespace {

static_assert(std::endian::native == std::endian::little, "the values of a file are used in place");

constexpr std::uint32_t kLastType = static_cast<std::uint32_t>(GgufType::kF64);
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::size_t kMaxNameBytes = 65535;  // longest name of a key (GGUF) or tensor
constexpr std::size_t kMaxShownBytes = 120;   // longest part of a key that a message shows
constexpr int kMaxArrayDepth = 4;
constexpr std::uint32_t kMaxAxes = 4;
// The fewest bytes of an entry: a name of one byte, its type, and a value of one byte; and a name
// of one byte, one axis, type and offset.
constexpr std::uint64_t kLeastPairBytes = 8 + 1 + 4 + 1;
constexpr std::uint64_t kLeastTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

[[noreturn]] void fail(const std::string& where, const std::string& what,
                       std::string_view remedy = kConvertAgain) {
  throw Error(ErrorCode::kBadModel, where + ": " + what + "; " + std::string(remedy));
}

// Takes values from the header one after the other.
class Cursor {
 public:
  Cursor(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {}

  std::size_t position() const { return at_; }
  std::uint64_t remaining() const { return file_.size() - at_; }
  const std::string& file_name() const { return name_; }

  std::span<const std::byte> take(std::uint64_t count, std::string_view what) {
    if (count > remaining()) {
      fail(name_, std::string(what.substr(0, kMaxShownBytes)) + " at byte " + std::to_string(at_) +
                      " would have " + std::to_string(count) + " bytes, but " +
                      std::to_string(remaining()) + " are left: the file may be cut short");
    }
    const auto bytes = file_.subspan(at_, static_cast<std::size_t>(count));
    at_ += bytes.size();
    return bytes;
  }
  template <class T>
  T take_number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> take_text(std::string_view what) {
    const auto length = take_number<std::uint64_t>(what);
    return take(length, what);
  }
  // A key or a tensor's name.
  std::string_view take_name(std::string_view what) {
    const std::size_t begin = at_;
    const auto bytes = take_text(what);
    const std::string_view name(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const bool is_printable =
        std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
    if (name.empty() || name.size() > kMaxNameBytes || !is_printable) {
      fail(name_, std::string(what) + " at byte " + std::to_string(begin) + " is " +
                      quote_name(name) + "; expected 1 to " + std::to_string(kMaxNameBytes) +
                      " characters of ASCII");
    }
    return name;
  }

 private:
  std::span<const std::byte> file_;
  const std::string& name_;
  std::size_t at_ = 0;
};

GgufType take_type(Cursor& cursor, std::string_view key) {
  const auto number = cursor.take_number<std::uint32_t>(key);
  if (number > kLastType) {
    fail(cursor.file_name(),
         quote_name(key) + " has a value of the unknown type " + std::to_string(number));
  }
  return static_cast<GgufType>(number);
}

void check_bools(std::span<const std::byte> bytes, const Cursor& cursor, std::string_view key) {
  const bool are_bools =
      std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b <= std::byte{1}; });
  if (!are_bools) fail(cursor.file_name(), quote_name(key) + " has a bool that is neither 0 nor 1");
}

// Moves the cursor over the elements of an array.
void skip_elements(Cursor& cursor, std::string_view key, GgufType type, std::uint64_t count,
                   int depth) {
  if (const std::size_t fixed = gguf_fixed_bytes(type); fixed != 0) {
    if (count > cursor.remaining() / fixed) {
      fail(cursor.file_name(), quote_name(key) + " has an array of " + std::to_string(count) + " " +
                                   std::string(gguf_type_name(type)) + ", more than the " +
                                   std::to_string(cursor.remaining()) +
                                   " bytes that are left: the file may be cut short");
    }
    const auto bytes = cursor.take(count * fixed, key);
    if (type == GgufType::kBool) check_bools(bytes, cursor, key);
    return;
  }
  // Every element has bytes of its own, so a false count ends at the end of the file.
  for (std::uint64_t i = 0; i < count; ++i) {
    if (type == GgufType::kString) {
      cursor.take_text(key);
      continue;
    }
    if (depth == kMaxArrayDepth) {
      fail(cursor.file_name(), quote_name(key) + " has arrays nested deeper than " +
                                   std::to_string(kMaxArrayDepth) + " levels");
    }
    const GgufType inner = take_type(cursor, key);
    const auto inner_count = cursor.take_number<std::uint64_t>(key);
    skip_elements(cursor, key, inner, inner_count, depth + 1);
  }
}

GgufValue take_pair(Cursor& cursor, std::span<const std::byte> file) {
  GgufValue value;
  value.key = cursor.take_name("a key");
  value.type = take_type(cursor, value.key);
  if (value.type == GgufType::kString) {
    value.bytes = cursor.take_text(value.key);
  } else if (value.type == GgufType::kArray) {
    value.element_type = take_type(cursor, value.key);
    value.num_elements = cursor.take_number<std::uint64_t>(value.key);
    const std::size_t begin = cursor.position();
    skip_elements(cursor, value.key, value.element_type, value.num_elements, 1);
    value.bytes = file.subspan(begin, cursor.position() - begin);
  } else {
    value.bytes = cursor.take(gguf_fixed_bytes(value.type), value.key);
    if (value.type == GgufType::kBool) check_bools(value.bytes, cursor, value.key);
  }
  return value;
}

GgufMetadata take_metadata(Cursor& cursor, std::span<const std::byte> file, std::uint64_t count) {
  if (count > cursor.remaining() / kLeastPairBytes) {
    fail(cursor.file_name(), "has " + std::to_string(count) + " keys by its header, more than " +
                                 std::to_string(cursor.remaining()) +
                                 " bytes can hold: the file may be cut short");
  }
  std::vector<GgufValue> values;
  values.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) values.push_back(take_pair(cursor, file));
  std::sort(values.begin(), values.end(),
            [](const GgufValue& a, const GgufValue& b) { return a.key < b.key; });
  const auto twice =
      std::adjacent_find(values.begin(), values.end(),
                         [](const GgufValue& a, const GgufValue& b) { return a.key == b.key; });
  if (twice != values.end()) {
    fail(cursor.file_name(), "the key " + quote_name(twice->key) + " is there twice");
  }
  return {std::move(values), cursor.file_name()};
}

struct Placed {
  GgufTensor tensor;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
};
// What a header of many small entries allocates, per byte of it.
static_assert(sizeof(GgufValue) <= 4 * kLeastPairBytes);
static_assert(sizeof(Placed) + sizeof(GgufTensor) <= 8 * kLeastTensorBytes);

void take_extents(Cursor& cursor, const std::string& where, Placed& placed) {
  GgufTensor& tensor = placed.tensor;
  tensor.rank = cursor.take_number<std::uint32_t>("a tensor's axes");
  if (tensor.rank < 1 || tensor.rank > kMaxAxes) {
    fail(where, "has " + std::to_string(tensor.rank) + " axes; expected 1 to 4");
  }
  for (std::uint32_t i = 0; i < tensor.rank; ++i) {
    const auto extent = cursor.take_number<std::int64_t>("a tensor's axes");
    if (extent < 1) fail(where, "has an axis of " + std::to_string(extent) + " elements");
    tensor.extents[tensor.rank - 1 - i] = extent;
  }
}

void take_tensor_type(Cursor& cursor, const std::string& where, Placed& placed) {
  GgufTensor& tensor = placed.tensor;
  const auto number = cursor.take_number<std::uint32_t>("a tensor's type");
  tensor.type = find_ggml_type(number);
  if (tensor.type == nullptr) {
    throw Error(ErrorCode::kUnavailable,
                where + ": has the type " + std::to_string(number) +
                    ", which this build does not know; convert the model again to Q8_0, Q4_K or "
                    "another type of today");
  }
  const GgmlTypeTraits& type = *tensor.type;
  const std::int64_t columns = tensor.extents[tensor.rank - 1];
  if (columns % type.block_elements != 0) {
    fail(where, "has rows of " + std::to_string(columns) + " elements, which are no whole blocks " +
                    "of " + std::to_string(type.block_elements) + " of the type " +
                    std::string(type.name));
  }
  std::int64_t size_bytes = columns / type.block_elements;
  bool overflows = __builtin_mul_overflow(size_bytes, type.block_bytes, &size_bytes);
  std::int64_t num_elements = columns;  // bounded too, because it may exceed the bytes
  for (std::uint32_t i = 0; i + 1 < tensor.rank; ++i) {
    overflows = overflows || __builtin_mul_overflow(size_bytes, tensor.extents[i], &size_bytes) ||
                __builtin_mul_overflow(num_elements, tensor.extents[i], &num_elements);
  }
  if (overflows) {
    fail(where, "shape " + extents_to_string(tensor.shape()) + " of " + std::string(type.name) +
                    " is beyond 63 bits");
  }
  placed.size_bytes = static_cast<std::uint64_t>(size_bytes);
}

Placed take_tensor(Cursor& cursor) {
  Placed placed;
  placed.tensor.name = cursor.take_name("the name of a tensor");
  const std::string where = cursor.file_name() + ": tensor " + quote_name(placed.tensor.name);
  take_extents(cursor, where, placed);
  take_tensor_type(cursor, where, placed);
  placed.offset = cursor.take_number<std::uint64_t>("a tensor's offset");
  return placed;
}

std::uint64_t alignment_of(const GgufMetadata& metadata) {
  const GgufValue* const value = metadata.find("general.alignment");
  if (value == nullptr) return kDefaultAlignment;
  const auto alignment = static_cast<std::uint64_t>(
      metadata.require_int("general.alignment", 1, std::int64_t{1} << 30));
  if (!std::has_single_bit(alignment)) {
    fail(metadata.file_name(),
         "general.alignment: " + std::to_string(alignment) + " is no power of two");
  }
  return alignment;
}

// Sets the bytes of the tensors, which are in the order of the header. Every comparison is with
// what is left of the file, so nothing overflows.
void place(std::vector<Placed>& tensors, std::span<const std::byte> file, std::size_t header_end,
           std::uint64_t alignment, const std::string& file_name) {
  const auto padding = [&](std::uint64_t position) {
    return (alignment - position % alignment) % alignment;
  };
  if (tensors.empty()) return;
  const std::uint64_t begin = header_end + padding(header_end);
  if (begin > file.size()) fail(file_name, "is cut short before the tensors' bytes");
  const std::span<const std::byte> buffer = file.subspan(static_cast<std::size_t>(begin));
  std::uint64_t expected = 0;  // offset of the next tensor
  std::uint64_t end = 0;       // end of the last tensor
  for (Placed& placed : tensors) {
    const std::string where = file_name + ": tensor " + quote_name(placed.tensor.name);
    if (placed.offset != expected) {
      fail(where, "begins at byte " + std::to_string(placed.offset) + " of the data, " +
                      std::to_string(expected) + " expected: tensors follow one another, each at " +
                      "a multiple of " + std::to_string(alignment));
    }
    if (placed.offset > buffer.size() || placed.size_bytes > buffer.size() - placed.offset) {
      fail(where, "needs " + std::to_string(placed.size_bytes) + " bytes from byte " +
                      std::to_string(placed.offset) + " of the data on, but the file has " +
                      std::to_string(buffer.size()) + ": it may be cut short");
    }
    const GgmlTypeTraits& type = *placed.tensor.type;
    if (type.block_elements == 1 &&
        (begin + placed.offset) % static_cast<std::uint64_t>(type.block_bytes) != 0) {
      fail(where,
           "begins at byte " + std::to_string(begin + placed.offset) +
               ", which is not aligned to its " + std::to_string(type.block_bytes) +
               "-byte elements",
           "write the file with general.alignment 32");
    }
    placed.tensor.bytes = buffer.subspan(static_cast<std::size_t>(placed.offset),
                                         static_cast<std::size_t>(placed.size_bytes));
    end = placed.offset + placed.size_bytes;
    expected = end + padding(end);
  }
  if (buffer.size() - end > padding(end)) {
    fail(file_name, std::to_string(buffer.size() - end) +
                        " bytes at the end belong to no tensor, where at most " +
                        std::to_string(padding(end)) + " of padding were expected");
  }
}

std::vector<GgufTensor> sorted_by_name(const std::vector<Placed>& placed,
                                       const std::string& file_name) {
  std::vector<GgufTensor> tensors;
  tensors.reserve(placed.size());
  for (const Placed& entry : placed) tensors.push_back(entry.tensor);
  std::sort(tensors.begin(), tensors.end(),
            [](const GgufTensor& a, const GgufTensor& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(tensors.begin(), tensors.end(),
                         [](const GgufTensor& a, const GgufTensor& b) { return a.name == b.name; });
  if (twice != tensors.end()) {
    fail(file_name, "tensor " + quote_name(twice->name) + " is there twice");
  }
  return tensors;
}

void check_magic(std::span<const std::byte> file, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("version https://git-lfs")) {
    fail(name, "is a Git LFS pointer, not the file itself", "fetch it with `git lfs pull`");
  }
  if (!text.starts_with("GGUF")) {
    fail(name, "is no GGUF file: it does not begin with \"GGUF\"" +
                   std::string(text.starts_with("ggjt") || text.starts_with("tjgg")
                                   ? " but with the mark of an older format of llama.cpp"
                                   : ""));
  }
}

std::uint32_t take_version(Cursor& cursor) {
  const auto version = cursor.take_number<std::uint32_t>("the version");
  if (version == 2 || version == 3) return version;
  const bool is_big_endian = version != 0 && (version & 0xFFFFu) == 0;
  throw Error(
      ErrorCode::kUnavailable,
      cursor.file_name() +
          (is_big_endian ? ": is a big-endian GGUF file; this build reads little-endian ones "
                           "(convert it with gguf-py's gguf-convert-endian)"
                         : ": is a GGUF file of version " + std::to_string(version) +
                               "; this build reads versions 2 and 3; convert the model again"));
}

}  // namespace

std::size_t gguf_fixed_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool: return 1;
    case GgufType::kU16:
    case GgufType::kI16: return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32: return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64: return 8;
    case GgufType::kString:
    case GgufType::kArray: break;
  }
  return 0;
}

GgufHeader parse_gguf(std::span<const std::byte> file, const std::string& file_name) {
  check_magic(file, file_name);
  Cursor cursor(file, file_name);
  cursor.take(4, "the magic");
  GgufHeader header;
  header.version = take_version(cursor);
  const auto num_tensors = cursor.take_number<std::uint64_t>("the number of tensors");
  const auto num_pairs = cursor.take_number<std::uint64_t>("the number of keys");
  header.metadata = take_metadata(cursor, file, num_pairs);
  if (num_tensors > cursor.remaining() / kLeastTensorBytes) {
    fail(file_name, "has " + std::to_string(num_tensors) + " tensors by its header, more than " +
                        std::to_string(cursor.remaining()) +
                        " bytes can hold: the file may be cut short");
  }
  std::vector<Placed> tensors;
  tensors.reserve(static_cast<std::size_t>(num_tensors));
  for (std::uint64_t i = 0; i < num_tensors; ++i) tensors.push_back(take_tensor(cursor));
  place(tensors, file, cursor.position(), alignment_of(header.metadata), file_name);
  header.tensors = sorted_by_name(tensors, file_name);
  return header;
}

}  // namespace caption::weights
