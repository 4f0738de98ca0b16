// weights/internal/safetensors.h: the header of one .safetensors file.
//   u64 little-endian header length N | N bytes of JSON | the tensors' bytes
// Source: https://github.com/huggingface/safetensors (format description, 0.4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace caption::weights {

struct FileTensor {
  std::string name;
  std::string dtype_name;      // as the file has it: "BF16"
  std::optional<DType> dtype;  // absent for one this build does not compute with: F64, F8, ...
  std::vector<std::int64_t> extents;
  std::int64_t num_elements = 0;
  std::span<const std::byte> bytes;  // inside the file
};

// The tensors of a whole file, sorted by name. Their bytes follow one another from the header to
// the end of the file, each as long as its shape and dtype say and aligned to its element size.
// Throws Error(kBadModel) "file_name: ..." naming tensor and byte.
std::vector<FileTensor> parse_safetensors(std::span<const std::byte> file,
                                          const std::string& file_name);

// model.safetensors.index.json: tensor name to shard's file name. A shard's name is a plain file
// name of the same folder; anything that could lead elsewhere is refused.
// Throws Error(kBadModel).
std::map<std::string, std::string> parse_shard_index(std::string_view json,
                                                     const std::string& file_name);

// A name from a file as messages carry it: quoted, and not longer than useful.
std::string quote_name(std::string_view name);

std::string extents_to_string(std::span<const std::int64_t> extents);  // "[577, 1024]"

}  // namespace caption::weights
