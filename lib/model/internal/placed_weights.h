// model/internal/placed_weights.h: the parameters of a blueprint, read from their sources and held
// in the form in which the kernels compute.
//
// The kernels take f32, bf16 and f16 weights and widen them exactly, so on the CPU weights are used
// where they are mapped. WeightFormat::kF32 therefore means "the numbers of the file". kBF16 means
// "as if the file were bf16": f32 and f16 tensors are rounded, to nearest even. The quantised
// formats quantise the numbers of the file for the roles that weights::matrix_format() quantises;
// the other parameters are held as with kBF16. The form on the device is kernels/weight.h's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/stream.h"
#include "kernels/linear.h"
#include "kernels/weight.h"
#include "model/blueprint.h"
#include "tensor/tensor.h"
#include "weights/format.h"
#include "weights/source.h"

namespace caption::model {

using LinearWeights = kernels::BiasedWeight;  // weight [out, in], bias [out] or empty

struct NormWeights {
  ConstView weight;
  ConstView bias;
};

// Immutable after construction, so any number of threads may read it.
class PlacedWeights {
 public:
  // Reads every parameter of the blueprint from sources[ParameterGroup::source] to the stream's
  // device, with the stream's threads. Throws Error(kBadModel) naming the tensor when it is
  // missing, of another shape, not floating-point or, if it is quantised, not finite; otherwise as
  // Source::read().
  PlacedWeights(Stream& stream, const Blueprint& blueprint,
                std::vector<std::unique_ptr<weights::Source>> sources,
                weights::WeightFormat format);

  // A parameter as a matrix [rows, columns]; not for Role::kVector.
  const kernels::Weight& matrix(ParameterId id) const { return at(id).matrix; }
  // A parameter of Role::kVector, in the shape of the file; empty for kNoParameter.
  ConstView vector(ParameterId id) const {
    return id == kNoParameter ? ConstView{} : at(id).vector;
  }
  LinearWeights linear(const LinearIds& ids) const {
    return {matrix(ids.weight), vector(ids.bias)};
  }
  NormWeights norm(const NormIds& ids) const { return {vector(ids.weight), vector(ids.bias)}; }

  Device device() const { return device_; }
  std::int64_t size_bytes() const { return size_bytes_; }  // bytes of all parameters as held
  const std::vector<std::unique_ptr<weights::Source>>& sources() const { return sources_; }

 private:
  struct Placed {
    ConstView vector;
    kernels::Weight matrix;
  };

  const Placed& at(ParameterId id) const { return placed_[static_cast<std::size_t>(id)]; }
  void place(Stream& stream, const Parameter& parameter, weights::Source& source,
             const StoredName& where);
  ConstView place_rows(Stream& stream, ConstView file);

  Device device_;
  weights::WeightFormat format_;
  std::vector<std::unique_ptr<weights::Source>> sources_;
  std::vector<Tensor> rows_;    // vectors and embeddings that are not used where they are mapped
  std::vector<Placed> placed_;  // by ParameterId
  std::int64_t size_bytes_ = 0;
};

}  // namespace caption::model
