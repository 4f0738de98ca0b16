// weights/internal/safetensors.h: the header of one .safetensors file.
//   u64 little-endian header length N | N bytes of JSON | the tensors' bytes
// Source: https://github.com/huggingface/safetensors (format description, 0.4; the
// dtypes of 0.8, safetensors/src/tensor.rs).
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
  std::string dtype_name;      // spelled as in the file: "BF16"
  std::optional<DType> dtype;  // empty for a dtype this build does not compute with
  std::vector<std::int64_t> extents;
  std::int64_t num_elements = 0;
  std::span<const std::byte> bytes;  // inside the file
};

// Returns the tensors of a whole file, sorted by name. Their bytes must follow one another without
// gaps from the header to the end of the file, each as long as its shape and dtype require and
// aligned to its element size. Throws Error(kBadModel) "file_name: ..." naming tensor and byte.
std::vector<FileTensor> parse_safetensors(std::span<const std::byte> file,
                                          const std::string& file_name);

// Parses model.safetensors.index.json and returns the shard's file name by tensor name. A shard's
// name must be a plain file name in the same folder; a name that could lead elsewhere is refused.
// Throws Error(kBadModel).
std::map<std::string, std::string> parse_shard_index(std::string_view json,
                                                     const std::string& file_name);

// Bytes of an element of a dtype of whole bytes that the format has, such as "BF16". Throws
// Error(kInternal) for another.
std::int64_t dtype_bytes(std::string_view dtype);

// Returns a name from a file in the form messages use: quoted, and cut if it is very long.
std::string quote_name(std::string_view name);

std::string extents_to_string(std::span<const std::int64_t> extents);  // "[577, 1024]"

}  // namespace caption::weights
