// weights/checkpoint.h: named tensors of a Hugging Face checkpoint, memory-mapped.
//
// model.safetensors, or the shards of model.safetensors.index.json. Every header byte is validated
// before anything is used: sizes, overlaps, gaps, dtypes, shapes, duplicate names, offsets past the
// end. A tensor of a dtype this build does not compute with (F64, F8, ...) is listed, and refused
// when asked for. A Checkpoint is thread-safe, and immutable as long as nobody writes its files.
// Source: https://github.com/huggingface/safetensors (format description, 0.4).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest_cache.h"
#include "base/sha256.h"
#include "tensor/tensor.h"

namespace caption::weights {

class Checkpoint {
 public:
  // Opens a folder or one .safetensors file; of a sharded one, the tensors its index names. Throws
  // Error(kBadModel) naming file, tensor and byte; kUnavailable for weights of another format.
  static Checkpoint open(const std::filesystem::path& folder_or_file);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  // Borrowed from the mapping, valid while the Checkpoint lives. May be unaligned in the file:
  // the mapping is page-aligned, but a tensor's offset need not be a multiple of its element size
  // (such a file is refused). Throws Error(kUnavailable) for a dtype or rank no view can have.
  std::optional<ConstView> find(std::string_view name) const;
  // As find(), and throws Error(kBadModel) naming the tensor, the shape found and the shape wanted.
  ConstView require(std::string_view name, const Shape& shape) const;

  std::vector<std::string> names() const;  // sorted
  std::int64_t num_parameters() const;
  std::int64_t size_bytes() const;
  // Over the contents of its files and, of shards, their index and names; the identity of the
  // weights. What `digests` does not hold is read whole (about 1.5 GB/s), on the first call only.
  // Throws Error(kBadModel) when a file was written since it was opened; kIo.
  Sha256 content_hash(const DigestCache& digests = {}) const;

  // The first file that is not what it was when the checkpoint was opened, if there is one: written
  // (by its size and times) or cut short under the mapping. As a sentence for an Error.
  //
  // Renaming a file, linking to it and changing its mode set the time of change too. Once
  // content_hash() has been called, a file whose time of change alone is new is therefore hashed
  // again, once for each such time, and counts as changed when its digest differs: that finds a
  // file that was rewritten with its size and time put back. Before that call there is no digest to
  // compare with, and the file counts as changed. Otherwise an fstat() per file.
  // Throws Error(kIo).
  std::optional<std::string> find_changed_file() const;
  const std::filesystem::path& path() const;

 private:
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace caption::weights
