// model/internal/placed_weights.h: the parameters of a blueprint, read from their sources and held
// in the form in which the kernels compute.
//
// The kernels take f32, bf16 and f16 weights and widen them exactly, so weights are used where they
// are mapped. WeightFormat::kF32 therefore means "the numbers of the file". kBF16 means "as if the
// file were bf16": f32 and f16 tensors are rounded (to nearest even) into memory that PlacedWeights
// owns, and matrices are packed where the CPU tier is faster on panels (kernels/packed_weight.h).
// The quantised formats quantise the numbers of the file and pack them for the roles that
// weights::matrix_format() quantises; the other parameters are held as with kBF16.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/packed_weight.h"
#include "model/blueprint.h"
#include "tensor/tensor.h"
#include "weights/format.h"
#include "weights/source.h"

namespace caption::model {

// A dense layer's weight [out, in] and bias [out]; the bias may be empty.
struct LinearWeights {
  const kernels::PackedWeight& weight;
  ConstView bias;
};

struct NormWeights {
  ConstView weight;
  ConstView bias;
};

// Immutable after construction, so any number of threads may read it.
class PlacedWeights {
 public:
  // Reads every parameter of the blueprint from sources[ParameterGroup::source]. Throws
  // Error(kBadModel) naming the tensor when it is missing, of another shape, not floating-point or,
  // if it is quantised, not finite; otherwise as Source::read().
  PlacedWeights(const Blueprint& blueprint, std::vector<std::unique_ptr<weights::Source>> sources,
                weights::WeightFormat format);

  // A parameter as a matrix [rows, columns]; not for Role::kVector.
  const kernels::PackedWeight& matrix(ParameterId id) const { return at(id).matrix; }
  // A parameter that is not packed, in the shape of the file; empty for kNoParameter.
  ConstView vector(ParameterId id) const { return id == kNoParameter ? ConstView{} : at(id).plain; }
  LinearWeights linear(const LinearIds& ids) const {
    return {matrix(ids.weight), vector(ids.bias)};
  }
  NormWeights norm(const NormIds& ids) const { return {vector(ids.weight), vector(ids.bias)}; }

  std::int64_t size_bytes() const { return size_bytes_; }  // bytes of all parameters as held
  const std::vector<std::unique_ptr<weights::Source>>& sources() const { return sources_; }

 private:
  struct Placed {
    ConstView plain;
    kernels::PackedWeight matrix;
  };

  const Placed& at(ParameterId id) const { return placed_[static_cast<std::size_t>(id)]; }
  void place(const Parameter& parameter, weights::Source& source, const std::string& name);
  ConstView place_plain(const Parameter& parameter, weights::Source& source,
                        const std::string& name);

  weights::WeightFormat format_;
  std::vector<std::unique_ptr<weights::Source>> sources_;
  std::vector<Tensor> rounded_;
  std::vector<Placed> placed_;  // by ParameterId
  std::int64_t size_bytes_ = 0;
};

}  // namespace caption::model
