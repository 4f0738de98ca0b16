// weights/internal/gguf_parser.h: the header of one GGUF file.
//   "GGUF" | u32 version | u64 number of tensors | u64 number of keys | keys and values |
//   tensors: name, axes, type, offset | padding to the alignment | the tensors' bytes
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weights/gguf_file.h"
#include "weights/gguf_metadata.h"

namespace caption::weights {

struct GgufHeader {
  std::uint32_t version = 3;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // sorted by name
};

// Parses a whole file. The tensors must follow one another in the order of the header, each at the
// next multiple of general.alignment (32 by default), up to the end of the file or its padding. The
// results borrow `file`; beside them the memory used is less than 8 times the header. Throws
// Error(kBadModel) "file_name: ..." naming key or tensor and byte, and Error(kUnavailable) for
// another version, another byte order, or a type of tensor that this build does not know.
GgufHeader parse_gguf(std::span<const std::byte> file, const std::string& file_name);

// The bytes of a value of a fixed size; 0 for strings and arrays.
std::size_t gguf_fixed_bytes(GgufType type);

}  // namespace caption::weights
