// weights/internal/coded_source.h: what the sources of quantised checkpoints share. A file format
// is a function that finds the modules of a Checkpoint whose weights are codes (awq_source.cpp and
// its neighbours); CodedSource presents them as `<module>.weight`.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/requested_pages.h"
#include "weights/checkpoint.h"
#include "weights/internal/safetensors.h"
#include "weights/source.h"

namespace caption::weights {

// A weight [N, K] that several tensors of a file make up. Immutable, thread-safe; borrows from the
// Checkpoint that it was found in.
class CodedTensor {
 public:
  virtual ~CodedTensor() = default;
  virtual Shape shape() const = 0;
  // As Source::codes_of() and read_codes(); the range of rows is valid.
  virtual std::optional<StoredCodes> codes() const = 0;
  // As Source::e4m3_of().
  virtual std::optional<StoredCodes> e4m3() const { return std::nullopt; }
  virtual QuantisedMatrix read_codes(std::int64_t first, std::int64_t count) const = 0;
  // As Source::borrow_codes().
  virtual QuantisedMatrix borrow_codes(std::int64_t first, std::int64_t count) const {
    return read_codes(first, count);
  }
  // Returns the numbers [N, K] as the reference of the format computes them. The default takes
  // them from the codes.
  virtual Tensor decode() const;
  // The names of the file's tensors that it is made of.
  const std::vector<std::string>& parts() const { return parts_; }

 protected:
  explicit CodedTensor(std::vector<std::string> parts) : parts_(std::move(parts)) {}

 private:
  std::vector<std::string> parts_;
};

using CodedTensors = std::map<std::string, std::unique_ptr<CodedTensor>, std::less<>>;

class CodedSource final : public Source {
 public:
  // `coded` is borrowed from `file`, by the name of the weight that each presents.
  CodedSource(std::unique_ptr<Checkpoint> file, CodedTensors coded);

  std::string name() const override { return file_->name(); }
  bool has(std::string_view tensor) const override;
  std::vector<std::string> names() const override;
  std::optional<Shape> shape(std::string_view tensor) const override;
  ConstView read(std::string_view tensor, const Shape& shape) override;
  std::vector<std::span<const std::byte>> mapped_bytes(std::string_view tensor) const override;
  void release(std::string_view tensor) override;
  std::optional<StoredCodes> codes_of(std::string_view tensor) const override;
  std::optional<StoredCodes> e4m3_of(std::string_view tensor) const override;
  QuantisedMatrix read_codes(std::string_view tensor, const Shape& shape, std::int64_t first,
                             std::int64_t count) const override;
  QuantisedMatrix borrow_codes(std::string_view tensor, const Shape& shape, std::int64_t first,
                               std::int64_t count) const override;
  Sha256 content_hash(const DigestCache& digests) const override {
    return file_->content_hash(digests);
  }
  std::optional<std::string> find_changed_file() const override {
    return file_->find_changed_file();
  }
  std::optional<std::string> find_broken_tensor() const override {
    return file_->find_broken_tensor();
  }

 private:
  const CodedTensor* find_coded(std::string_view tensor) const;
  const CodedTensor& require_coded(std::string_view tensor, const Shape& shape) const;

  std::unique_ptr<Checkpoint> file_;
  CodedTensors coded_;
  std::map<std::string, std::string, std::less<>> owners_;  // a part's weight
  std::map<std::string, Tensor, std::less<>> decoded_;      // kept until release()
};

// A tensor of a file of which name, dtype and shape are known to be right.
struct Part {
  const Checkpoint* file = nullptr;
  const FileTensor* tensor = nullptr;

  // For messages: "model.safetensors: tensor \"x.qweight\"".
  std::string where() const { return file->where(tensor->name); }

  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(tensor->bytes.data());
  }
  std::int64_t dim(std::size_t axis) const { return tensor->extents[axis]; }
};

[[noreturn]] void fail_part(const Part& part, const std::string& what);

// The tensors `<module>.<suffix>` of one module.
class Module {
 public:
  Module(const Checkpoint& file, std::string name) : file_(file), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  // The name of one of its tensors.
  std::string tensor(std::string_view suffix) const { return name_ + "." + std::string(suffix); }
  // Returns the tensor if there is one. Throws Error(kBadModel) when it is of another dtype (as
  // safetensors spells them) or rank.
  std::optional<Part> find(std::string_view suffix, std::initializer_list<std::string_view> dtypes,
                           std::size_t rank);
  // As find(), but throws Error(kBadModel) when there is none.
  Part require(std::string_view suffix, std::initializer_list<std::string_view> dtypes,
               std::size_t rank);
  // As require(), for one of several ranks.
  Part require_any_rank(std::string_view suffix, std::initializer_list<std::string_view> dtypes);
  // As require(), but throws Error(kBadModel) when the shape is another.
  Part require_shape(std::string_view suffix, std::initializer_list<std::string_view> dtypes,
                     const std::vector<std::int64_t>& extents);
  // The names of all tensors that were found.
  const std::vector<std::string>& parts() const { return parts_; }
  // Counts tensors among the module's that do not change its weight, if there are any.
  void add_parts(std::initializer_list<std::string_view> suffixes);

 private:
  std::optional<Part> find_any_rank(std::string_view suffix,
                                    std::initializer_list<std::string_view> dtypes);
  [[noreturn]] void fail_missing(std::string_view suffix) const;

  const Checkpoint& file_;
  std::string name_;
  std::vector<std::string> parts_;
};

// Returns the modules of which the file has a tensor `<module>.<suffix>`, sorted.
std::vector<std::string> modules_with(const Checkpoint& file, std::string_view suffix);

// Asks the system for the tensors `<module>.<suffix>` that the file has, without waiting. For small
// tensors in all places of a file, which are read while the returned object lives.
[[nodiscard]] RequestedPages request_parts(const Checkpoint& file,
                                           const std::vector<std::string>& modules,
                                           std::initializer_list<std::string_view> suffixes);

// Returns element i of a tensor of dtype F32, BF16 or F16 as f32.
inline float number_at(const FileTensor& tensor, std::int64_t i) {
  const std::byte* const bytes = tensor.bytes.data();
  switch (tensor.dtype.value_or(DType::kF32)) {
    case DType::kBF16: return to_float(reinterpret_cast<const BF16*>(bytes)[i]);
    case DType::kF16: return to_float(reinterpret_cast<const F16*>(bytes)[i]);
    default: return reinterpret_cast<const float*>(bytes)[i];
  }
}

// As number_at(). Throws Error(kBadModel) when the number is not finite.
inline float finite_at(const Part& part, std::int64_t i) {
  const float number = number_at(*part.tensor, i);
  if (!std::isfinite(number)) fail_part(part, "holds a number that is not finite");
  return number;
}

// Throws Error(kBadModel) for a matrix `<module>.weight` of this dtype, as safetensors spells it,
// that is none of `coded`: numbers of this dtype are multiplied by a scale, and `scales`, the
// suffixes of tensors that could hold it, are all missing.
void refuse_bare_codes(const Checkpoint& file, const CodedTensors& coded, std::string_view dtype,
                       std::initializer_list<std::string_view> scales);

// Throws Error(kUnavailable) naming the first key of `config` that is not in `known` and has a
// value other than null, false or an empty one: it might change the values of the weights.
void refuse_unknown_keys(const JsonObject& config, std::span<const std::string_view> known);
inline void refuse_unknown_keys(const JsonObject& config,
                                std::initializer_list<std::string_view> known) {
  refuse_unknown_keys(config, std::span(known.begin(), known.size()));
}
// Throws Error(kUnavailable): "config.json: quantization_config: <what> is not supported ..."
[[noreturn]] void refuse_value(const JsonObject& config, const std::string& what,
                               const std::string& supported);

// Throws for a number of columns per group that is neither -1 (a whole row) nor one that the
// kernels take: Error(kBadModel) for 0 and below, kUnavailable for others.
void require_group_size(const JsonObject& config, std::int64_t group_size);

// The column orders of one file; equal ones are held once.
using KnownOrders = std::map<std::vector<std::int32_t>, ColumnOrder>;
// Returns the order that makes the columns of every group adjacent, the groups ascending;
// `group_of` I32 [K] holds each column's group. Null if they are adjacent already. Throws
// Error(kBadModel) for a group that is not there; kUnavailable when one has not `group_columns`
// columns (the last: what is left).
ColumnOrder order_by_group(const Part& group_of, std::int64_t num_groups,
                           std::int64_t group_columns, KnownOrders& orders);

// Reads the configuration of a method and finds the coded tensors of a file. They throw
// Error(kBadModel) naming the tensor; kUnavailable naming a key and value.
CodedTensors find_auto_round(const Checkpoint& file, const JsonObject& config);
CodedTensors find_awq(const Checkpoint& file, const JsonObject& config);
CodedTensors find_bitsandbytes(const Checkpoint& file, const JsonObject& config);
CodedTensors find_compressed_tensors(const Checkpoint& file, const JsonObject& config);
CodedTensors find_fp8(const Checkpoint& file, const JsonObject& config);
CodedTensors find_gptq(const Checkpoint& file, const JsonObject& config);

}  // namespace caption::weights
