// weights/gguf.h: what a GGUF file holds, from its header. This build does not read its weights.
//   "GGUF" | u32 version | u64 tensors | u64 metadata entries | metadata | tensor descriptions
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace caption::weights {

struct GgufSummary {
  std::uint32_t version = 0;
  std::string architecture;  // general.architecture: "qwen2"; empty: the file does not say
  std::string name;          // general.name
  std::int64_t num_tensors = 0;
  std::int64_t num_parameters = 0;
  std::int64_t file_bytes = 0;
};

// Reads only the header. Throws Error(kBadModel) naming the file when it is no GGUF file of these
// versions, or its header is damaged; otherwise as MappedFile.
GgufSummary read_gguf_summary(const std::filesystem::path& file);

}  // namespace caption::weights
