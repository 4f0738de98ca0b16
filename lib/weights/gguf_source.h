// weights/gguf_source.h: the tensors of a GGUF file under the names of a Hugging Face checkpoint.
//
// A language model (architectures llama, qwen2, qwen2vl, qwen3, qwen3vl) has the names "model.*",
// or those under another prefix, and "lm_head.weight"; a vision tower with its projector
// (architecture clip; Qwen2.5-VL, Qwen3-VL, InternVL, LLaVA) those of the checkpoints of these
// families. The rows that llama.cpp's converter permutes, concatenated projections and kernels that
// it cuts by frame are put together again. F32, F16 and BF16 tensors that are not changed are views
// of the mapping; others are decoded to f32 when they are read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/quantised_matrix.h"
#include "tensor/tensor.h"
#include "weights/gguf_file.h"
#include "weights/source.h"

namespace caption::weights {

// The tensors of a file that a source presents: a tower's file also holds the projector.
enum class GgufPart { kWhole, kTower, kProjector };

class GgufSource final : public Source {
 public:
  // Throws Error(kUnavailable) for another architecture or projector, or a tensor that none of them
  // has, by name; Error(kBadModel) when a part of a tensor is missing.
  explicit GgufSource(std::shared_ptr<const GgufFile> file, std::string_view text_prefix = "model.",
                      GgufPart part = GgufPart::kWhole);
  explicit GgufSource(GgufFile file, std::string_view text_prefix = "model.")
      : GgufSource(std::make_shared<const GgufFile>(std::move(file)), text_prefix) {}
  ~GgufSource() override;

  std::string name() const override { return file_->path().string(); }
  bool has(std::string_view tensor) const override;
  std::vector<std::string> names() const override;
  std::optional<std::string> file_name_of(std::string_view tensor) const override;
  std::optional<Shape> shape(std::string_view tensor) const override;
  // Axes of one element do not count when shapes are compared. Throws Error(kUnavailable) for a
  // type that decode_rows() does not read; Error(kBadModel), Error(kOutOfMemory) as Source.
  ConstView read(std::string_view tensor, const Shape& shape) override;
  std::optional<DType> dtype_of(std::string_view tensor) const override;
  std::vector<std::span<const std::byte>> mapped_bytes(std::string_view tensor) const override;
  void release(std::string_view tensor) override;

  // A matrix of one type with codes has them, also with permuted rows.
  std::optional<StoredCodes> codes_of(std::string_view tensor) const override;
  QuantisedMatrix read_codes(std::string_view tensor, const Shape& shape, std::int64_t first,
                             std::int64_t count) const override;
  QuantisedMatrix borrow_codes(std::string_view tensor, const Shape& shape, std::int64_t first,
                               std::int64_t count) const override;
  bool has_decodable_rows(std::string_view tensor) const override;
  void decode_rows(std::string_view tensor, std::int64_t first, std::int64_t count,
                   float* to) const override;

  Sha256 content_hash(const DigestCache& digests) const override {
    return file_->content_hash(digests);
  }
  std::optional<std::string> find_changed_file() const override {
    return file_->find_changed_file();
  }
  std::optional<std::string> find_broken_tensor() const override;

 private:
  struct Entries;
  std::shared_ptr<const GgufFile> file_;
  std::unique_ptr<Entries> entries_;
  std::map<std::string, Tensor, std::less<>> made_;  // decoded tensors that are in use
};

}  // namespace caption::weights
