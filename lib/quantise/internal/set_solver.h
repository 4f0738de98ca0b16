// quantise/internal/set_solver.h: GPTQ's solver (quantise/gptq_solver.h) for the matrices of a
// layer, those with the same inputs together.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "backend/stream.h"
#include "quantise/gptq_solver.h"
#include "quantise/internal/layer_solver.h"

namespace caption::quantise {

// A layer whose matrices are replaced by what they are rounded to; all is borrowed.
struct SolvedLayer {
  const LayerPlan& plan;
  LayerWeights& weights;
  NewTensors& made;
  const OnWork& on_work;
};

using Matrices = std::initializer_list<MatrixIndex>;

// For one thread at a time.
class SetSolver {
 public:
  // Returns the numbers [N, K] f32 of the tensors that Format::pack() returns.
  using Decode = Tensor (*)(std::span<const Bytes> parts, const Shape& shape);

  SetSolver(Stream& stream, const Format& format, const GptqOptions& options, Decode decode)
      : stream_(stream), format_(format), options_(options), decode_(decode) {}

  // Rounds the matrices that have inputs with these moments, and puts the rounded numbers in their
  // place. Throws Error naming the tensor.
  void solve(const SolvedLayer& layer, Matrices matrices, InputMoments moments) const;
  // The multiply-adds that are reported while the moments of all inputs of a layer are summed and
  // its four sets (q, k, v; o; gate, up; down) are solved.
  static std::int64_t work(const LayerPlan& layer, const HiddenStates& hidden);
  // Puts the numbers of the tensors of an earlier call in the place of the layer's matrices.
  void read(const LayerPlan& layer, const weights::Checkpoint& made, LayerWeights& weights) const;

 private:
  Stream& stream_;
  const Format& format_;
  GptqOptions options_;
  Decode decode_;
};

}  // namespace caption::quantise
