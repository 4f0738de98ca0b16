// model/internal/weight_store.h: a checkpoint's tensors in the form a model computes with.
//
// The kernels take f32, bf16 and f16 weights and widen them exactly, so weights are used where they
// are mapped. WeightType::kF32 therefore means "the numbers of the file"; the others mean "as if
// the file were bf16": f32 and f16 tensors are rounded (to nearest even) into memory of our own,
// and the matrices of dense layers are packed where the CPU tier likes that
// (kernels/packed_weight.h). The quantised types quantise and pack the matrices that their Part
// asks for.
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

// A dense layer's weight [out, in] and bias [out]; an empty bias is none.
struct LinearWeights {
  kernels::PackedWeight weight;
  ConstView bias;
};

// What a matrix belongs to: it decides how a quantised type holds it.
enum class Part { kDecoderLayer, kLmHead, kOther };

class WeightStore {
 public:
  WeightStore(weights::Checkpoint checkpoint, WeightType type);

  // Valid while the store lives. Throws Error(kBadModel) naming the tensor when it is missing, of
  // another shape, or not of floating point.
  ConstView require(const std::string& name, const Shape& shape);
  // The same for a matrix of a dense layer [out, in], however many dimensions the file gives it.
  kernels::PackedWeight require_matrix(const std::string& name, const Shape& shape,
                                       Part part = Part::kOther);
  // stem + ".weight" and, when asked for, ".bias".
  enum class Bias { kNone, kRequired };
  LinearWeights require_linear(const std::string& stem, std::int64_t out, std::int64_t in,
                               Bias bias, Part part = Part::kOther);

  // The first of `prefixes` under which the checkpoint has `anchor`; layouts differ between
  // versions of transformers. Throws Error(kBadModel) naming them all.
  std::string find_prefix(std::span<const std::string_view> prefixes,
                          std::string_view anchor) const;

  // The checkpoint's tensors that packed matrices were made from: nothing reads them again.
  std::span<const ConstView> packed_sources() const { return packed_sources_; }

  const weights::Checkpoint& checkpoint() const { return checkpoint_; }
  std::int64_t used_bytes() const { return used_bytes_; }  // of the tensors asked for, as held

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
