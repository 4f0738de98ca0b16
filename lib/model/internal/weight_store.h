// model/internal/weight_store.h: a checkpoint's tensors in the form in which a model computes.
//
// The kernels take f32, bf16 and f16 weights and widen them exactly, so weights are used where they
// are mapped. WeightType::kF32 therefore means "the numbers of the file"; the other types mean "as
// if the file were bf16": f32 and f16 tensors are rounded (to nearest even) into memory that the
// store owns, and the matrices of dense layers are packed where the CPU tier is faster on panels
// (kernels/packed_weight.h). The quantised types quantise and pack the matrices whose Part requires
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/packed_weight.h"
#include "model/caption_model.h"
#include "tensor/tensor.h"
#include "weights/checkpoint.h"
#include "weights/quantise.h"

namespace caption::model {

// A dense layer's weight [out, in] and bias [out]; the bias may be empty.
struct LinearWeights {
  kernels::PackedWeight weight;
  ConstView bias;
};

// The part of the model that a matrix belongs to, which decides how a quantised type holds it.
enum class Part { kDecoderLayer, kLmHead, kOther };

class WeightStore {
 public:
  WeightStore(weights::Checkpoint checkpoint, WeightType type);

  // Valid while the store exists. Throws Error(kBadModel) naming the tensor when it is missing, of
  // another shape, or not floating-point.
  ConstView require(const std::string& name, const Shape& shape);
  // Like require(), for the matrix [out, in] of a dense layer, which may have more axes in the
  // file.
  kernels::PackedWeight require_matrix(const std::string& name, const Shape& shape,
                                       Part part = Part::kOther);
  // Returns the layer with the weight stem + ".weight" and, if kRequired, the bias stem + ".bias".
  enum class Bias { kNone, kRequired };
  LinearWeights require_linear(const std::string& stem, std::int64_t out, std::int64_t in,
                               Bias bias, Part part = Part::kOther);

  // Returns the first of `prefixes` under which the checkpoint has `anchor`, because layouts differ
  // between versions of transformers. Throws Error(kBadModel) naming all the tensors tried.
  std::string find_prefix(std::span<const std::string_view> prefixes,
                          std::string_view anchor) const;

  // The checkpoint's tensors that were packed; they are not read again.
  std::span<const ConstView> packed_sources() const { return packed_sources_; }

  const weights::Checkpoint& checkpoint() const { return checkpoint_; }
  std::int64_t used_bytes() const { return used_bytes_; }  // size of the requested tensors as held

 private:
  ConstView require_floating(const std::string& name, const Shape& shape) const;
  kernels::PackedWeight pack_bf16(ThreadPool& pool, ConstView source) const;
  kernels::PackedWeight pack_quantised(ThreadPool& pool, const std::string& name, ConstView source,
                                       weights::QuantisedFormat format) const;

  weights::Checkpoint checkpoint_;
  WeightType type_;
  bool packs_;
  std::vector<Tensor> rounded_;
  std::vector<ConstView> packed_sources_;
  std::int64_t used_bytes_ = 0;
};

}  // namespace caption::model
