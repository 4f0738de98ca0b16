// model/internal/weight_store.h: a checkpoint's tensors in the form a model computes with.
//
// The kernels take f32, bf16 and f16 weights and widen them exactly, so weights are used where they
// are mapped. WeightType::kF32 therefore means "the numbers of the file"; kBF16 means "as if the
// file were bf16": f32 and f16 tensors are rounded (to nearest even) into memory of our own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/caption_model.h"
#include "tensor/tensor.h"
#include "weights/checkpoint.h"

namespace caption::model {

// A dense layer's weight [out, in] and bias [out]; an empty bias is none.
struct LinearWeights {
  ConstView weight;
  ConstView bias;
};

class WeightStore {
 public:
  WeightStore(weights::Checkpoint checkpoint, WeightType type);

  // Valid while the store lives. Throws Error(kBadModel) naming the tensor when it is missing, of
  // another shape, or not of floating point.
  ConstView require(const std::string& name, const Shape& shape);
  // stem + ".weight" and, when asked for, ".bias".
  enum class Bias { kNone, kRequired };
  LinearWeights require_linear(const std::string& stem, std::int64_t out, std::int64_t in,
                               Bias bias);

  // The first of `prefixes` under which the checkpoint has `anchor`; layouts differ between
  // versions of transformers. Throws Error(kBadModel) naming them all.
  std::string find_prefix(std::span<const std::string_view> prefixes,
                          std::string_view anchor) const;

  const weights::Checkpoint& checkpoint() const { return checkpoint_; }
  std::int64_t used_bytes() const { return used_bytes_; }  // of the tensors asked for

 private:
  weights::Checkpoint checkpoint_;
  WeightType type_;
  std::vector<Tensor> rounded_;
  std::int64_t used_bytes_ = 0;
};

}  // namespace caption::model
