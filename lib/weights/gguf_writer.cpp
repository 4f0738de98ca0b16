#include "weights/gguf_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <numeric>
#include <utility>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/open_file.h"
#include "weights/ggml_encode.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kAlignment = 32;
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append_text(std::string& bytes, std::string_view text) {
  append(bytes, static_cast<std::uint64_t>(text.size()));
  bytes += text;
}

std::size_t aligned(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

// "GGUF" | version | number of tensors | number of keys | keys and values | tensors.
std::string header_of(const GgufFields& fields, const std::vector<GgufTensorHeader>& tensors) {
  std::string bytes = "GGUF";
  append(bytes, kVersion);
  append(bytes, static_cast<std::uint64_t>(tensors.size()));
  append(bytes, static_cast<std::uint64_t>(fields.count()));
  bytes += fields.bytes();
  std::size_t offset = 0;
  for (const GgufTensorHeader& tensor : tensors) {
    append_text(bytes, tensor.name);
    append(bytes, static_cast<std::uint32_t>(tensor.extents.size()));
    for (auto extent = tensor.extents.rbegin(); extent != tensor.extents.rend(); ++extent) {
      append(bytes, static_cast<std::uint64_t>(*extent));
    }
    append(bytes, static_cast<std::uint32_t>(tensor.type));
    append(bytes, static_cast<std::uint64_t>(offset));
    offset += aligned(tensor.size_bytes());
  }
  return bytes;
}

bool begins_with(const fs::path& path, const std::string& header) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::string begin(aligned(header.size()), '\1');
  const std::size_t size = OpenFile(path).read_at(0, std::as_writable_bytes(std::span(begin)));
  std::string padded = header;
  padded.resize(begin.size(), '\0');
  return size == begin.size() && begin == padded;
}

[[noreturn]] void throw_io(const std::string& where, const std::string& what, int error_number) {
  throw Error(output_error_code(error_number),
              where + ": cannot " + what + ": " + describe_errno(error_number));
}

}  // namespace

void GgufFields::put_text(std::string_view text) { append_text(bytes_, text); }

void GgufFields::begin(std::string_view key, GgufType type) {
  CAPTION_CHECK(!has(key), "the key " + std::string(key) + " is added twice");
  keys_.emplace_back(key);
  put_text(key);
  put(static_cast<std::uint32_t>(type));
}

void GgufFields::begin_list(std::string_view key, GgufType type, std::size_t count) {
  begin(key, GgufType::kArray);
  put(static_cast<std::uint32_t>(type));
  put(static_cast<std::uint64_t>(count));
}

GgufFields& GgufFields::add_text(std::string_view key, std::string_view text) {
  begin(key, GgufType::kString);
  put_text(text);
  return *this;
}

GgufFields& GgufFields::add_texts(std::string_view key, const std::vector<std::string>& texts) {
  begin_list(key, GgufType::kString, texts.size());
  for (const std::string& text : texts) put_text(text);
  return *this;
}

GgufFields& GgufFields::append(const GgufFields& fields) {
  for (const std::string& key : fields.keys_) {
    CAPTION_CHECK(!has(key), "the key " + key + " is added twice");
    keys_.push_back(key);
  }
  bytes_ += fields.bytes_;
  return *this;
}

bool GgufFields::has(std::string_view key) const {
  return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
}

std::size_t GgufTensorHeader::size_bytes() const {
  const GgmlTypeTraits* const traits = find_ggml_type(static_cast<std::uint32_t>(type));
  CAPTION_CHECK(!extents.empty() && extents.size() <= 4 && traits != nullptr &&
                    extents.back() % traits->block_elements == 0,
                "tensor " + name + ": rows that are no whole blocks");
  const std::int64_t elements =
      std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
  return encoded_bytes(type, elements);
}

GgufWriter::GgufWriter(fs::path path, const GgufFields& fields,
                       std::vector<GgufTensorHeader> tensors, std::int64_t kept_bytes)
    : path_(std::move(path)),
      temporary_(path_.string() + kUnfinished),
      tensors_(std::move(tensors)) {
  const std::string header = header_of(fields, tensors_);
  const bool goes_on = take_place(header, kept_bytes);
  file_ = FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (file_.get() < 0) throw_io(temporary_.string(), "create the file", errno);
  try {
    if (::ftruncate(file_.get(), size_bytes_) != 0 ||
        ::lseek(file_.get(), size_bytes_, SEEK_SET) < 0) {
      throw_io(temporary_.string(), "set the length", errno);
    }
    if (!goes_on) {
      put(header.data(), header.size());
      pad();
    }
    if (current_ < tensors_.size()) remaining_ = tensors_[current_].size_bytes();
    skip_empty();
  } catch (...) {
    if (!goes_on) ::unlink(temporary_.c_str());
    throw;
  }
}

bool GgufWriter::take_place(const std::string& header, std::int64_t kept_bytes) {
  if (kept_bytes <= 0 || !begins_with(temporary_, header)) return false;
  std::size_t end = aligned(header.size());
  std::size_t index = 0;
  while (index < tensors_.size() && end < static_cast<std::size_t>(kept_bytes)) {
    end += aligned(tensors_[index++].size_bytes());
  }
  if (end != static_cast<std::size_t>(kept_bytes) || index == 0) return false;
  num_kept_ = current_ = index;
  size_bytes_ = kept_bytes;
  is_left_ = true;
  return true;
}

bool GgufWriter::is_begun(const fs::path& path, const GgufFields& fields,
                          const std::vector<GgufTensorHeader>& tensors) {
  return begins_with(path, header_of(fields, tensors));
}

GgufWriter::~GgufWriter() {
  if (!is_left_) ::unlink(temporary_.c_str());
}

std::string GgufWriter::where() const {
  if (current_ >= tensors_.size()) return path_.string();
  return path_.string() + ": tensor " + quote_name(tensors_[current_].name);
}

void GgufWriter::flush() {
  if (const int error = write_whole(file_.get(), buffer_); error != 0) {
    throw_io(where(), "write", error);
  }
  buffer_.clear();
}

void GgufWriter::put(const void* bytes, std::size_t size) {
  buffer_.append(static_cast<const char*>(bytes), size);
  size_bytes_ += static_cast<std::int64_t>(size);
  if (buffer_.size() >= kBufferBytes) flush();
}

void GgufWriter::pad() {
  constexpr char kZeros[kAlignment] = {};
  const auto size = static_cast<std::size_t>(size_bytes_);
  put(kZeros, aligned(size) - size);
}

// Goes on to the next tensor that has bytes.
void GgufWriter::skip_empty() {
  while (remaining_ == 0 && current_ < tensors_.size()) {
    pad();
    ++current_;
    if (current_ < tensors_.size()) remaining_ = tensors_[current_].size_bytes();
  }
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  CAPTION_CHECK(bytes.size() <= remaining_, where() + ": more bytes than its shape has");
  put(bytes.data(), bytes.size());
  remaining_ -= bytes.size();
  skip_empty();
}

void GgufWriter::keep() {
  flush();
  is_left_ = true;
}

void GgufWriter::finish() {
  CAPTION_CHECK(current_ == tensors_.size(), where() + ": bytes are missing");
  flush();
  if (::fsync(file_.get()) != 0) throw_io(temporary_.string(), "sync the file", errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw_io(path_.string(), "replace the file", errno);
  }
  is_left_ = true;
  sync_folder(path_.parent_path());
}

}  // namespace caption::weights
