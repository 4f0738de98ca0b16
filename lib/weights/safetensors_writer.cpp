#include "weights/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {
namespace {

constexpr std::size_t kLengthBytes = 8;
// Bytes that are copied before their pages are released.
constexpr std::size_t kCopyBytes = 16u << 20;

std::int64_t count_elements(const PlannedTensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.extents) count *= extent;
  return count;
}

// Bytes of an element; 0 for a tensor without elements, which fits anywhere.
std::int64_t element_bytes(const PlannedTensor& tensor) {
  const std::int64_t count = count_elements(tensor);
  return count == 0 ? 0 : tensor.size_bytes / count;
}

std::string extents_json(const std::vector<std::int64_t>& extents) {
  std::string text = "[";
  for (const std::int64_t extent : extents) {
    text += (text.size() == 1 ? "" : ",") + std::to_string(extent);
  }
  return text + "]";
}

}  // namespace

PlannedTensor plan_tensor(std::string name, std::string dtype, std::vector<std::int64_t> extents) {
  PlannedTensor tensor{
      .name = std::move(name), .dtype = std::move(dtype), .extents = std::move(extents)};
  tensor.size_bytes = count_elements(tensor) * dtype_bytes(tensor.dtype);
  return tensor;
}

PlannedTensor plan_copy(const Checkpoint& from, std::string_view tensor) {
  const FileTensor* const stored = from.stored(tensor);
  CAPTION_CHECK(stored != nullptr, "safetensors: no tensor " + std::string(tensor));
  return {.name = stored->name,
          .dtype = stored->dtype_name,
          .extents = stored->extents,
          .size_bytes = std::ssize(stored->bytes)};
}

std::string safetensors_header(std::vector<PlannedTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const PlannedTensor& a, const PlannedTensor& b) {
    const std::int64_t bytes_a = element_bytes(a);
    const std::int64_t bytes_b = element_bytes(b);
    return bytes_a != bytes_b ? bytes_a > bytes_b : a.name < b.name;
  });
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::int64_t offset = 0;
  for (const PlannedTensor& tensor : tensors) {
    const std::int64_t end = offset + tensor.size_bytes;
    json += "," + json_quote(tensor.name) + R"(:{"dtype":)" + json_quote(tensor.dtype) +
            R"(,"shape":)" + extents_json(tensor.extents) + R"(,"data_offsets":)" +
            extents_json({offset, end}) + "}";
    offset = end;
  }
  json += "}";
  json.append((kLengthBytes - json.size() % kLengthBytes) % kLengthBytes, ' ');
  std::string header;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    header += static_cast<char>(json.size() >> (8 * i) & 0xFFu);
  }
  return header + json;
}

std::filesystem::path partial_path(const std::filesystem::path& path) {
  return path.string() + ".partial";
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, std::vector<PlannedTensor> tensors)
    : path_(std::move(path)), partial_(partial_path(path_)) {
  const std::string header = safetensors_header(tensors);
  auto offset = static_cast<std::int64_t>(header.size());
  for (const PlannedTensor& tensor : tensors) {
    const bool is_new = places_.emplace(tensor.name, Place{offset, tensor.size_bytes}).second;
    CAPTION_CHECK(is_new, "safetensors: two tensors " + tensor.name);
    offset += tensor.size_bytes;
  }
  file_ = FileDescriptor(::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file_.get() < 0) fail("create the file", errno);
  try {
    // A file system that cannot reserve space finds a full disk when it is written.
    const int error = ::fallocate(file_.get(), 0, 0, offset) == 0 ? 0 : errno;
    if (error != 0 && error != EOPNOTSUPP && error != ENOSYS) {
      fail(("reserve " + std::to_string(offset) + " bytes").c_str(), error);
    }
    if (::ftruncate(file_.get(), offset) != 0) fail("set the length", errno);
    write_at(0, std::as_bytes(std::span(header)));
  } catch (...) {
    ::unlink(partial_.c_str());
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_.get() >= 0) ::unlink(partial_.c_str());
}

void SafetensorsWriter::write(std::string_view tensor, std::span<const std::byte> bytes) {
  write_at(begin(tensor, bytes.size()).offset, bytes);
}

void SafetensorsWriter::copy(const Checkpoint& from, std::string_view tensor) {
  const FileTensor* const stored = from.stored(tensor);
  CAPTION_CHECK(stored != nullptr, "safetensors: no tensor " + std::string(tensor));
  const std::int64_t offset = begin(tensor, stored->bytes.size()).offset;
  for (std::size_t first = 0; first < stored->bytes.size(); first += kCopyBytes) {
    const auto piece =
        stored->bytes.subspan(first, std::min(kCopyBytes, stored->bytes.size() - first));
    write_at(offset + static_cast<std::int64_t>(first), piece);
    release_pages(piece);
  }
}

void SafetensorsWriter::finish() {
  for (const auto& [name, place] : places_) {
    CAPTION_CHECK(place.is_written, "safetensors: tensor " + name + " was not written");
  }
  if (::fsync(file_.get()) != 0) fail("write", errno);
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) fail("rename the file", errno);
  file_ = FileDescriptor();
  sync_folder(path_.parent_path());
}

const SafetensorsWriter::Place& SafetensorsWriter::begin(std::string_view tensor,
                                                         std::size_t size_bytes) {
  const auto found = places_.find(tensor);
  CAPTION_CHECK(found != places_.end(),
                "safetensors: tensor " + std::string(tensor) + " is not in the plan");
  Place& place = found->second;
  CAPTION_CHECK(place.size_bytes == static_cast<std::int64_t>(size_bytes) && !place.is_written,
                "safetensors: tensor " + found->first + " has another size, or was written before");
  place.is_written = true;
  return place;
}

void SafetensorsWriter::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file_.get(), bytes.data(), bytes.size(), offset);
    if (count < 0) {
      if (errno == EINTR) continue;
      fail("write", errno);
    }
    offset += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void SafetensorsWriter::fail(const char* what, int error) const {
  throw Error(output_error_code(error),
              partial_.string() + ": cannot " + what + ": " + describe_errno(error));
}

}  // namespace caption::weights
