// weights/checkpoint.h: named tensors of a Hugging Face checkpoint, memory-mapped.
//
// model.safetensors, or the shards of model.safetensors.index.json. Every header byte is validated
// before anything is used: sizes, overlaps, gaps, dtypes, shapes, duplicate names, offsets past the
// end. A tensor of a dtype that this build does not compute with (F64, F8, ...) is listed, but
// find() throws for it. A Checkpoint is thread-safe, and immutable as long as nobody writes its
// files.
// Source: https://github.com/huggingface/safetensors (format description, 0.4).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest_cache.h"
#include "base/requested_pages.h"
#include "base/sha256.h"
#include "tensor/tensor.h"
#include "weights/source.h"

namespace caption::weights {

struct FileTensor;  // weights/internal/safetensors.h

// The tensors of one dtype.
struct StoredDType {
  std::string name;  // "bf16"; a dtype that this build does not compute with as the file spells it
  std::int64_t num_parameters = 0;
  std::int64_t size_bytes = 0;
};

class Checkpoint final : public Source {
 public:
  // Opens a folder or one .safetensors file; a sharded checkpoint has the tensors that its index
  // names. Throws Error(kBadModel) naming file, tensor and byte; kUnavailable for weights of
  // another format.
  static Checkpoint open(const std::filesystem::path& folder_or_file);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint() override;

  // Borrowed from the mapping, valid while the Checkpoint exists. Aligned to the element size:
  // open() refuses a file with a tensor that is not. Throws Error(kUnavailable) for a dtype or rank
  // that no view can have.
  std::optional<ConstView> find(std::string_view name) const;
  // As find(), but throws Error(kBadModel) naming the tensor, the shape found and the shape
  // expected.
  ConstView require(std::string_view name, const Shape& shape) const;

  // The tensor as the file describes it, of any dtype and rank; null if there is none. Borrowed as
  // with find().
  const FileTensor* stored(std::string_view name) const;
  // The place of a tensor that stored() has, for messages: file and quoted name.
  std::string where(std::string_view name) const;
  // Adds the pages of a tensor to `requested`, if there is one; the Checkpoint must outlive that.
  void request(std::string_view name, RequestedPages& requested) const;

  std::vector<std::string> names() const override;  // sorted
  std::int64_t num_parameters() const;
  std::int64_t size_bytes() const;
  std::vector<std::filesystem::path> files() const;
  // The dtypes of all tensors, those with the most bytes first.
  std::vector<StoredDType> dtypes() const;
  // SHA-256 over the contents of the files and, for a sharded checkpoint, its index and file names:
  // the identity of the weights. The first call reads the files that `digests` does not know (about
  // 1.5 GB/s). Throws Error(kBadModel) when a file was written since it was opened; kIo.
  Sha256 content_hash(const DigestCache& digests = {}) const override;

  // Returns a sentence for an Error about the first file that changed since the checkpoint was
  // opened: it was written (its size or times differ) or cut short under the mapping. nullopt if
  // there is none.
  //
  // Renaming a file, linking to it and changing its mode also set the time of change. After a call
  // of content_hash(), a file of which only the time of change differs is therefore hashed again,
  // once for each such time, and counts as changed when its digest differs; this also finds a file
  // that was rewritten and got its old size and modification time back. Before that call there is
  // no digest to compare with, and the file counts as changed. Otherwise the cost is an fstat() per
  // file. Throws Error(kIo).
  std::optional<std::string> find_changed_file() const override;
  std::optional<std::string> find_broken_tensor() const override;
  const std::filesystem::path& path() const;

  // The functions of Source; release() returns the mapped pages of the tensor to the system.
  std::string name() const override { return path().string(); }
  bool has(std::string_view tensor) const override;
  std::optional<Shape> shape(std::string_view tensor) const override;
  ConstView read(std::string_view tensor, const Shape& shape) override {
    return require(tensor, shape);
  }
  std::vector<std::span<const std::byte>> mapped_bytes(std::string_view tensor) const override;
  void release(std::string_view tensor) override;

 private:
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace caption::weights
