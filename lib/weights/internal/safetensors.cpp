#include "weights/internal/safetensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_stream.h"
#include "base/utf8.h"

namespace caption::weights {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format
constexpr std::size_t kMaxEntryBytes = 4096;            // a tensor of many axes has 200
constexpr std::size_t kLeastEntryBytes = 40;  // no fewer characters name dtype, shape and offsets
constexpr std::string_view kMetadata = "__metadata__";

struct DTypeName {
  std::string_view name;
  std::int64_t bits;  // per element
  std::optional<DType> dtype;
};

constexpr DTypeName kDTypes[] = {
    {"F32", 32, DType::kF32},
    {"F16", 16, DType::kF16},
    {"BF16", 16, DType::kBF16},
    {"I8", 8, DType::kI8},
    {"U8", 8, DType::kU8},
    {"I32", 32, DType::kI32},
    {"I64", 64, DType::kI64},
    {"F64", 64, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"U32", 32, {}},
    {"U64", 64, {}},
    {"BOOL", 8, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E8M0", 8, {}},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"C64", 64, {}},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
};
constexpr std::int64_t kBitsOfByte = 8;

// The bytes at a multiple of which a tensor begins: those of an element, or 1 where several share
// a byte.
std::int64_t alignment_of(const DTypeName& dtype) {
  return std::max<std::int64_t>(1, dtype.bits / kBitsOfByte);
}

struct Entry {
  FileTensor tensor;
  std::int64_t alignment = 1;  // bytes
  std::int64_t begin = 0;      // counted from the end of the header
  std::int64_t end = 0;
};

constexpr std::string_view kSaveAgain =
    "download the file again, or save it again with safetensors";

[[noreturn]] void fail(const std::string& where, const std::string& what,
                       std::string_view remedy = kSaveAgain) {
  throw Error(ErrorCode::kBadModel, where + ": " + what + "; " + std::string(remedy));
}

[[noreturn]] void fail_twice(const std::string& file_name, std::string_view key) {
  fail(file_name, "key " + quote_name(key) + " appears twice");
}

// Text from the file for a message.
std::string shown(std::string_view text) {
  constexpr std::size_t kMaxShown = 80;
  return make_valid_utf8(text.substr(0, kMaxShown)) + (text.size() > kMaxShown ? "..." : "");
}

// Returns the length of the JSON header; refuses files of another kind and says what they look
// like.
std::size_t header_length(std::span<const std::byte> file, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("version https://git-lfs")) {
    fail(name, "is a Git LFS pointer, not the file itself", "fetch it with `git lfs pull`");
  }
  if (file.size() < kLengthBytes) {
    fail(name, "is no safetensors file: " + counted(std::ssize(file), "byte"));
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<std::uint64_t>(file[i]) << (8 * i);
  }
  if (length == 0 || file.size() == kLengthBytes || text[kLengthBytes] != '{') {
    fail(name, "is no safetensors file: the header at byte 8 is not a JSON object");
  }
  if (length > kMaxHeaderBytes) {
    fail(name, "is no safetensors file: its header would have " + std::to_string(length) +
                   " bytes; at most " + std::to_string(kMaxHeaderBytes) + " are allowed");
  }
  if (length > file.size() - kLengthBytes) {
    fail(name, "is cut short: the header needs " + std::to_string(kLengthBytes + length) +
                   " bytes, the file has " + std::to_string(file.size()));
  }
  return length;
}

// What a header says about a tensor.
struct EntryFields {
  std::string dtype;
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> offsets;
};

std::optional<std::vector<std::int64_t>> read_numbers(JsonStream& entry) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (entry.peek() != JsonStream::Kind::kArray) return std::nullopt;
  std::vector<std::int64_t> numbers;
  entry.begin_array();
  while (entry.next_element()) {
    if (entry.peek() != JsonStream::Kind::kNumber) return std::nullopt;
    numbers.push_back(entry.read_int(-kMost, kMost));
  }
  return numbers;
}

// Reads an entry that has what the format's library writes, dtype, shape and data_offsets once
// each, without a document of it, which would take longer. Returns nothing for any other entry,
// which may be valid.
std::optional<EntryFields> read_plain_fields(std::string_view text) {
  JsonStream entry(text, "", ErrorCode::kBadModel);
  if (entry.peek() != JsonStream::Kind::kObject) return std::nullopt;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::int64_t>> extents;
  std::optional<std::vector<std::int64_t>> offsets;
  std::string scratch;
  entry.begin_object();
  for (std::string key; entry.next_key(&key);) {
    if (key == "dtype" && !dtype && entry.peek() == JsonStream::Kind::kString) {
      dtype = entry.read_string(&scratch);
    } else if (key == "shape" && !extents) {
      extents = read_numbers(entry);
      if (!extents) return std::nullopt;
    } else if (key == "data_offsets" && !offsets) {
      offsets = read_numbers(entry);
      if (!offsets) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  entry.finish();
  if (!dtype || !extents || !offsets) return std::nullopt;
  return EntryFields{
      .dtype = *std::move(dtype), .extents = *std::move(extents), .offsets = *std::move(offsets)};
}

EntryFields read_fields_of(const JsonObject& object, const std::string& where) {
  EntryFields fields{.dtype = object.require_string("dtype"), .extents = {}, .offsets = {}};
  if (!object.has("shape")) fail(where, "shape is missing");
  fields.extents = object.get_ints("shape");
  fields.offsets = object.get_ints("data_offsets");
  return fields;
}

// A tensor's name in messages, which is made where there is one.
struct EntryName {
  const std::string& file;
  const std::string& tensor;

  std::string text() const { return file + ": " + shown(tensor); }
};

[[noreturn]] void fail(const EntryName& name, const std::string& what) { fail(name.text(), what); }

EntryFields read_fields(std::string_view text, const EntryName& name) {
  try {
    if (auto plain = read_plain_fields(text)) return *std::move(plain);
  } catch (const Error&) {
    // The document below has a message for everything that is wrong with an entry.
  }
  const std::string where = name.text();
  return read_fields_of(JsonObject::parse(text, where, ErrorCode::kBadModel), where);
}

const DTypeName& find_dtype(const std::string& name, const EntryName& where) {
  for (const DTypeName& dtype : kDTypes) {
    if (dtype.name == name) return dtype;
  }
  fail(where, "unknown dtype " + quote_name(name));
}

Entry read_entry(EntryFields fields, const EntryName& where) {
  const DTypeName& dtype = find_dtype(fields.dtype, where);
  Entry entry;
  entry.tensor.name = where.tensor;
  entry.tensor.dtype_name = dtype.name;
  entry.tensor.dtype = dtype.dtype;
  entry.alignment = alignment_of(dtype);
  entry.tensor.extents = std::move(fields.extents);
  std::int64_t num_elements = 1;
  bool overflows = false;
  for (const std::int64_t extent : entry.tensor.extents) {
    if (extent < 0) fail(where, "negative extent " + std::to_string(extent) + " in shape");
    overflows = overflows || __builtin_mul_overflow(num_elements, extent, &num_elements);
  }
  std::int64_t size_bits = 0;
  overflows = overflows || __builtin_mul_overflow(num_elements, dtype.bits, &size_bits);
  if (overflows) {
    fail(where, "shape " + extents_to_string(entry.tensor.extents) + " of " +
                    entry.tensor.dtype_name + " is beyond 63 bits");
  }
  if (size_bits % kBitsOfByte != 0) {
    fail(where, "shape " + extents_to_string(entry.tensor.extents) + " of " +
                    entry.tensor.dtype_name + " is no whole number of bytes");
  }
  const std::int64_t size_bytes = size_bits / kBitsOfByte;
  entry.tensor.num_elements = num_elements;

  const std::vector<std::int64_t>& offsets = fields.offsets;
  if (offsets.size() != 2) {
    fail(where, "data_offsets has " + counted(std::ssize(offsets), "number") + "; expected two");
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  if (entry.begin < 0 || entry.end < entry.begin || entry.end - entry.begin != size_bytes) {
    fail(where, "data_offsets " + extents_to_string(offsets) + " do not span the " +
                    std::to_string(size_bytes) + " bytes of " +
                    extents_to_string(entry.tensor.extents) + " " + entry.tensor.dtype_name);
  }
  return entry;
}

void check_metadata(JsonStream& header, const std::string& file_name) {
  const std::string where = file_name + ": " + std::string(kMetadata);
  if (header.peek() != JsonStream::Kind::kObject) {
    const std::string_view value = header.skip_value();
    if (value == "null") return;
    fail(where, "expected an object, found " + shown(value));
  }
  header.begin_object();
  std::string scratch;
  for (std::string key; header.next_key(&key);) {
    if (header.peek() != JsonStream::Kind::kString) {
      fail(where + "." + shown(key), "expected a string, found " + shown(header.skip_value()));
    }
    header.read_string(&scratch);
  }
}

// Counts the tensors, and checks the structure around them.
std::size_t count_entries(std::string_view text, const std::string& file_name) {
  JsonStream header(text, file_name, ErrorCode::kBadModel);
  std::size_t count = 0;
  header.begin_object();
  for (std::string key; header.next_key(&key);) {
    header.skip_value();
    ++count;
  }
  header.finish();
  return count;
}

// Reads the header without a document of it, which would take up to 30 bytes per byte.
std::vector<Entry> read_header(std::string_view text, const std::string& file_name) {
  std::vector<Entry> entries;
  entries.reserve(std::min(count_entries(text, file_name), text.size() / kLeastEntryBytes));
  JsonStream header(text, file_name, ErrorCode::kBadModel);
  bool has_metadata = false;
  header.begin_object();
  for (std::string name; header.next_key(&name);) {
    if (name == kMetadata) {
      if (std::exchange(has_metadata, true)) fail_twice(file_name, name);
      check_metadata(header, file_name);
      continue;
    }
    const std::string_view value = header.skip_value();
    if (value == "null") fail(file_name, "tensor " + quote_name(name) + " is null");
    const EntryName where{.file = file_name, .tensor = name};
    if (value.size() > kMaxEntryBytes) {
      fail(where, "is described by " + std::to_string(value.size()) + " bytes; at most " +
                      std::to_string(kMaxEntryBytes) + " were expected");
    }
    entries.push_back(read_entry(read_fields(value, where), where));
  }
  return entries;
}

void refuse_equal_names(std::vector<Entry>& entries, const std::string& file_name) {
  const auto name_of = [](const Entry& entry) -> const std::string& { return entry.tensor.name; };
  std::sort(entries.begin(), entries.end(),
            [&](const Entry& a, const Entry& b) { return name_of(a) < name_of(b); });
  const auto twice =
      std::adjacent_find(entries.begin(), entries.end(),
                         [&](const Entry& a, const Entry& b) { return name_of(a) == name_of(b); });
  if (twice != entries.end()) fail_twice(file_name, name_of(*twice));
}

// Sets the bytes of the tensors and checks them in the order of their offsets.
void place(std::vector<Entry>* entries, std::span<const std::byte> file, std::size_t buffer_begin,
           const std::string& file_name) {
  std::sort(entries->begin(), entries->end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  const std::span<const std::byte> buffer = file.subspan(buffer_begin);
  const auto buffer_size = static_cast<std::int64_t>(buffer.size());
  std::int64_t expected_begin = 0;
  for (Entry& entry : *entries) {
    const auto fail_tensor = [&](const std::string& what, std::string_view remedy = kSaveAgain) {
      fail(file_name, "tensor " + quote_name(entry.tensor.name) + " " + what, remedy);
    };
    if (entry.begin != expected_begin) {
      const std::string how =
          entry.begin < expected_begin ? "overlaps the one before it" : "leaves a gap before it";
      fail_tensor(how + ": begins at byte " + std::to_string(entry.begin) + " of the data, " +
                  std::to_string(expected_begin) + " expected");
    }
    if (entry.end > buffer_size) {
      fail_tensor("ends at byte " + std::to_string(entry.end) + " of the data, but the file has " +
                  std::to_string(buffer_size) + ", which may be cut short");
    }
    const auto begin = static_cast<std::size_t>(entry.begin);
    const auto size_bytes = static_cast<std::size_t>(entry.end - entry.begin);
    if (size_bytes != 0 && (buffer_begin + begin) % entry.alignment != 0) {
      fail_tensor("begins at byte " + std::to_string(buffer_begin + begin) +
                      ", which is not aligned to its " + std::to_string(entry.alignment) +
                      "-byte elements",
                  "save the file again with safetensors 0.3 or later");
    }
    entry.tensor.bytes = buffer.subspan(begin, size_bytes);
    expected_begin = entry.end;
  }
  if (expected_begin != buffer_size) {
    fail(file_name,
         std::to_string(buffer_size - expected_begin) + " bytes at the end belong to no tensor");
  }
}

}  // namespace

std::vector<FileTensor> parse_safetensors(std::span<const std::byte> file,
                                          const std::string& file_name) {
  const std::size_t length = header_length(file, file_name);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  std::vector<Entry> entries = read_header(text, file_name);
  refuse_equal_names(entries, file_name);
  place(&entries, file, kLengthBytes + length, file_name);

  std::vector<FileTensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) tensors.push_back(std::move(entry.tensor));
  std::sort(tensors.begin(), tensors.end(),
            [](const FileTensor& a, const FileTensor& b) { return a.name < b.name; });
  return tensors;
}

std::map<std::string, std::string> parse_shard_index(std::string_view json,
                                                     const std::string& file_name) {
  const JsonObject index = JsonObject::parse(json, file_name, ErrorCode::kBadModel);
  const auto weight_map = index.get_object("weight_map");
  if (!weight_map) fail(file_name, "weight_map is missing");
  std::map<std::string, std::string> shards;
  for (const std::string& name : weight_map->keys()) {
    std::string shard = weight_map->require_string(name);
    const bool is_plain = !shard.empty() && shard != "." && shard != ".." &&
                          shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!is_plain) {
      fail(weight_map->name(), "tensor " + quote_name(name) + " is said to be in " +
                                   quote_name(shard) + "; expected a file name of this folder");
    }
    shards.emplace(name, std::move(shard));
  }
  if (shards.empty()) fail(file_name, "weight_map names no tensors");
  return shards;
}

std::int64_t dtype_bytes(std::string_view dtype) {
  const auto* const found =
      std::find_if(std::begin(kDTypes), std::end(kDTypes),
                   [&](const DTypeName& known) { return known.name == dtype; });
  CAPTION_CHECK(found != std::end(kDTypes) && found->bits % kBitsOfByte == 0,
                "safetensors: no dtype " + std::string(dtype));
  return found->bits / kBitsOfByte;
}

std::string quote_name(std::string_view name) {
  constexpr std::size_t kMaxBytes = 120;  // names of published models have at most 80
  std::string quoted = json_quote(name.substr(0, kMaxBytes));
  if (name.size() > kMaxBytes) quoted += "...";
  return quoted;
}

std::string extents_to_string(std::span<const std::int64_t> extents) {
  constexpr std::size_t kMaxShown = 8;
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(extents.size(), kMaxShown); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(extents[i]);
  }
  if (extents.size() > kMaxShown) text += ", ...";
  return text + "]";
}

}  // namespace caption::weights
