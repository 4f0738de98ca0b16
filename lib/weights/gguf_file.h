// weights/gguf_file.h: a model in llama.cpp's format, memory-mapped: one file, or the parts
// NAME-00001-of-00003.gguf, ... of one.
//
// Every byte of a header is validated before anything is used: counts, lengths, types, dims,
// overlaps, offsets, duplicate names, padding. The tensors of types that decode_rows() does not
// read are listed. Immutable and thread-safe as long as nobody writes the files. Source:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3); the parts are those
// of llama.cpp's gguf-split.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest_cache.h"
#include "base/sha256.h"
#include "weights/checkpoint.h"
#include "weights/ggml_type.h"
#include "weights/gguf_metadata.h"

namespace caption::weights {

struct GgufTensor {
  std::string_view name;
  const GgmlTypeTraits* type = nullptr;
  std::uint32_t rank = 0;            // 1 to 4
  std::int64_t extents[4] = {};      // slowest first, as in a Shape; the file has the reverse
  std::span<const std::byte> bytes;  // in the mapping; rows of blocks, aligned to the elements of
                                     // a type without blocks

  std::span<const std::int64_t> shape() const { return {extents, rank}; }
};

class GgufFile {
 public:
  // Opens a file, and with the first of several parts all of them. Throws Error(kBadModel) naming
  // file, key or tensor, and byte; kUnavailable for another version, another byte order or an
  // unknown type of tensor; as MappedFile.
  static GgufFile open(const std::filesystem::path& path);

  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  const std::filesystem::path& path() const;
  std::uint32_t version() const;  // the format's version, 2 or 3
  std::vector<std::filesystem::path> files() const;
  std::int64_t size_bytes() const;                      // bytes of all files
  std::int64_t num_parameters() const;                  // elements of all tensors
  std::vector<StoredDType> dtypes() const;              // those with the most bytes first
  const GgufMetadata& metadata() const;                 // the first part's metadata
  std::span<const GgufTensor> tensors() const;          // tensors of all parts, sorted by name
  const GgufTensor* find(std::string_view name) const;  // nullptr when there is none
  // "model.gguf: tensor \"blk.0.attn_q.weight\"", with the part that has it, for messages.
  std::string describe(const GgufTensor& tensor) const;

  // As Checkpoint::content_hash() and find_changed_file(); the names of parts do not count.
  Sha256 content_hash(const DigestCache& digests = {}) const;
  std::optional<std::string> find_changed_file() const;

 private:
  struct State;
  explicit GgufFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace caption::weights
