// quantise/format.h: the formats of quantised checkpoints: which tensors a matrix becomes, and what
// config.json says about them. Each format is an implementation of Format, and an entry of
// formats().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/thread_pool.h"
#include "quantise/rounding.h"
#include "tensor/tensor.h"
#include "weights/safetensors_writer.h"
#include "weights/source.h"

namespace caption::quantise {

using Bytes = std::vector<std::byte>;

// A matrix [N, K] of a checkpoint.
struct MatrixPlan {
  std::string module;  // the tensor's name without ".weight"
  Shape shape;
  DType dtype = DType::kBF16;
};

// What a quantization_config says besides the format.
struct ConfigSubject {
  DType dtype = DType::kBF16;  // dtype of the matrices in the source
  // Modules that are not quantised: parts of their names that no quantised module has ("lm_head",
  // "vision_tower").
  std::vector<std::string> kept_parts;
  // Matrices of the decoder that the format cannot hold, by their modules' names from "layers." on.
  std::vector<std::string> kept_matrices;
  std::string decoder_layers;  // the list of layers as transformers names it: "model.layers"
};

// Immutable, thread-safe.
class Format {
 public:
  virtual ~Format() = default;

  // Returns why a matrix of this shape stays as it is, such as "groups of 128 do not divide its 96
  // columns"; nullopt when it is quantised. Throws Error(kUnavailable) when the layout has no place
  // for such a matrix.
  virtual std::optional<std::string> obstacle(const MatrixPlan& matrix) const = 0;
  // Returns the tensors that stand for the matrix; their sizes depend on shape and dtype alone.
  virtual std::vector<weights::PlannedTensor> parts(const MatrixPlan& matrix) const = 0;
  // Returns how weights::Source::codes_of() will find the matrix in a checkpoint that encode()
  // makes; nullopt where no kernel multiplies by its codes.
  virtual std::optional<weights::StoredCodes> codes(const MatrixPlan& matrix) const = 0;
  // Returns the bytes of these tensors, in their order. The matrix is f32, bf16 or f16, dense.
  // Throws Error(kBadModel) when a weight is not finite, or too large for the format.
  virtual std::vector<Bytes> encode(ThreadPool& pool, ConstView matrix) const = 0;
  // Returns the bytes of the tensors of a matrix whose codes were chosen elsewhere, as encode()
  // does. Throws Error(kInternal) when `rounded` is not in the groups of the format, or when the
  // format takes no such codes, which only awq and gptq do.
  virtual std::vector<Bytes> pack(ThreadPool& pool, const RoundedMatrix& rounded) const;
  // Returns the quantization_config, an object in JSON.
  virtual std::string config(const ConfigSubject& subject) const = 0;
};

struct FormatOptions {
  bool double_quant = false;         // nf4 and fp4: scales are held in 8 bits
  std::int64_t group_columns = 128;  // w4a16, awq and gptq: a multiple of 8
  bool symmetric = true;             // gptq: false stores zeros, as gptq_v2
  // gptq: the configuration says desc_act, and pack() takes a matrix with group_of.
  bool act_order = false;
};

struct FormatEntry {
  std::string_view name;     // "nf4"
  std::string_view summary;  // what it is, for --help
  bool has_double_quant = false;
  bool has_groups = false;  // FormatOptions::group_columns
  bool has_pack = false;    // Format::pack()
  std::unique_ptr<const Format> (*make)(const FormatOptions& options) = nullptr;
};
std::span<const FormatEntry> formats();
// Returns nullptr for a name that no format has.
const FormatEntry* find_format(std::string_view name);

// The implementations.
std::unique_ptr<const Format> make_nf4(const FormatOptions& options);
std::unique_ptr<const Format> make_fp4(const FormatOptions& options);
std::unique_ptr<const Format> make_llm_int8(const FormatOptions& options);
std::unique_ptr<const Format> make_w8a8(const FormatOptions& options);
std::unique_ptr<const Format> make_w4a16(const FormatOptions& options);
std::unique_ptr<const Format> make_awq(const FormatOptions& options);
std::unique_ptr<const Format> make_gptq(const FormatOptions& options);

}  // namespace caption::quantise
