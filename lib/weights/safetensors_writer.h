// weights/safetensors_writer.h: writes a safetensors file whose tensors are made one after another.
//
// The header is computed from the list of tensors, and the file gets its whole length, before the
// first tensor is written; so a full disk is found at the beginning, and memory holds no tensor.
// The file has a temporary name until finish(), which makes it durable first.
//
// Tensors lie in the order of falling element sizes, and by name within one size, as the reference
// writes them: every tensor is then aligned to its elements without gaps.
// Source: https://github.com/huggingface/safetensors (format description, 0.4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "weights/checkpoint.h"

namespace caption::weights {

// A tensor that a file is to hold.
struct PlannedTensor {
  std::string name;
  std::string dtype;                  // spelled as in the file: "BF16"
  std::vector<std::int64_t> extents;  // empty: a scalar
  std::int64_t size_bytes = 0;
};

// Returns a tensor of `dtype`, of which the format has to have one.
PlannedTensor plan_tensor(std::string name, std::string dtype, std::vector<std::int64_t> extents);
// Returns a tensor as a checkpoint has it, of any dtype. The checkpoint must have it.
PlannedTensor plan_copy(const Checkpoint& from, std::string_view tensor);

// The header of a file, with its length before it and padded to 8 bytes. The names differ.
std::string safetensors_header(std::vector<PlannedTensor>& tensors);

// The name under which SafetensorsWriter writes `path` until it is finished.
std::filesystem::path partial_path(const std::filesystem::path& path);

// For one thread at a time. An unfinished file is removed with the object.
class SafetensorsWriter {
 public:
  // Throws Error(kIo) when the file cannot be created or the disk does not hold it; kOutOfMemory.
  SafetensorsWriter(std::filesystem::path path, std::vector<PlannedTensor> tensors);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // Writes all bytes of a tensor of the list, once. Throws Error(kIo).
  void write(std::string_view tensor, std::span<const std::byte> bytes);
  // Writes a tensor of the same name as the checkpoint has it, and releases its pages meanwhile.
  void copy(const Checkpoint& from, std::string_view tensor);
  // Gives the file its name, durably. Throws Error(kInternal) when a tensor was not written; kIo.
  void finish();

 private:
  struct Place {
    std::int64_t offset = 0;
    std::int64_t size_bytes = 0;
    bool is_written = false;
  };
  const Place& begin(std::string_view tensor, std::size_t size_bytes);
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  [[noreturn]] void fail(const char* what, int error) const;

  std::filesystem::path path_, partial_;
  std::map<std::string, Place, std::less<>> places_;
  FileDescriptor file_;
};

}  // namespace caption::weights
