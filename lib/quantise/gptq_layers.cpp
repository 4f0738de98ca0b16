#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "quantise/gptq_solver.h"
#include "quantise/input_moments.h"
#include "quantise/internal/gptq_parts.h"
#include "quantise/internal/layer_solver.h"

namespace caption::quantise {
namespace {

using weights::PlannedTensor;
using Matrices = std::initializer_list<MatrixIndex>;

class GptqLayers final : public LayerSolver {
 public:
  GptqLayers(Stream& stream, const Format& format, const GptqOptions& options)
      : stream_(stream), format_(format), options_(options) {}

  std::vector<PlannedTensor> parts(const LayerPlan& layer) const override {
    std::vector<PlannedTensor> all;
    for (const TensorPlan* const matrix : layer.matrices) {
      if (matrix != nullptr) all.insert(all.end(), matrix->parts.begin(), matrix->parts.end());
    }
    return all;
  }
  NewTensors make(const LayerPlan& layer, LayerWeights weights, HiddenStates& hidden) override;
  void pass(const LayerPlan& layer, LayerWeights weights, const weights::Checkpoint& made,
            HiddenStates& hidden) override;

 private:
  // Rounds matrices with these inputs, and puts the rounded numbers in their place.
  void solve(const LayerPlan& layer, Matrices matrices, InputMoments moments, LayerWeights& weights,
             NewTensors& made);

  Stream& stream_;
  const Format& format_;
  GptqOptions options_;
};

void GptqLayers::solve(const LayerPlan& layer, Matrices matrices, InputMoments moments,
                       LayerWeights& weights, NewTensors& made) {
  const std::string& first = layer.names.matrices[*matrices.begin()];
  const auto fail = [](const std::string& tensor, const Error& error) {
    return Error(error.code(), "tensor \"" + tensor + "\": " + error.what());
  };
  std::optional<GptqHessian> hessian;
  try {
    // The moments are freed before the matrices are solved.
    const InputMoments inputs = std::move(moments);
    hessian.emplace(stream_, inputs, options_);
  } catch (const Error& error) {
    throw fail(first, error);
  }
  if (hessian->damping() > options_.damping) {
    log_detail("quantize", first + ": damping " + std::to_string(hessian->damping()));
  }
  for (const MatrixIndex matrix : matrices) {
    const TensorPlan* const plan = layer.matrices[matrix];
    if (plan == nullptr) continue;
    try {
      const GptqSolution solution = solve_gptq(stream_, weights.matrices[matrix].view(), *hessian);
      std::vector<Bytes> parts = format_.pack(stream_.pool(), solution.matrix);
      weights.matrices[matrix] = decode_gptq(parts, plan->matrix->shape);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        made[plan->parts[i].name] = std::move(parts[i]);
      }
    } catch (const Error& error) {
      throw fail(plan->name, error);
    }
  }
}

NewTensors GptqLayers::make(const LayerPlan& layer, LayerWeights weights, HiddenStates& hidden) {
  NewTensors made;
  const auto add_to = [this](InputMoments& moments) {
    return [this, &moments](ConstView rows) { moments.add(stream_, rows); };
  };
  {
    InputMoments moments(weights.matrices[kQ].dim(1));
    hidden.show_attention_inputs(weights.views(), add_to(moments));
    solve(layer, {kQ, kK, kV}, std::move(moments), weights, made);
  }
  hidden.attend(weights.views());
  {
    InputMoments moments(weights.matrices[kO].dim(1));
    moments.add(stream_, hidden.attended());
    solve(layer, {kO}, std::move(moments), weights, made);
  }
  hidden.add_attention(weights.views());
  {
    InputMoments moments(weights.matrices[kGate].dim(1));
    hidden.show_mlp_inputs(weights.views(), add_to(moments));
    solve(layer, {kGate, kUp}, std::move(moments), weights, made);
  }
  {
    InputMoments moments(weights.matrices[kDown].dim(1));
    hidden.show_down_inputs(weights.views(), add_to(moments));
    solve(layer, {kDown}, std::move(moments), weights, made);
  }
  hidden.add_mlp(weights.views());
  return made;
}

void GptqLayers::pass(const LayerPlan& layer, LayerWeights weights, const weights::Checkpoint& made,
                      HiddenStates& hidden) {
  for (std::size_t i = 0; i < kNumMatrices; ++i) {
    const TensorPlan* const plan = layer.matrices[i];
    if (plan == nullptr) continue;
    std::vector<Bytes> parts;
    for (const PlannedTensor& part : plan->parts) {
      const auto* const begin = static_cast<const std::byte*>(made.find(part.name).value().raw());
      parts.emplace_back(begin, begin + part.size_bytes);
    }
    weights.matrices[i] = decode_gptq(parts, plan->matrix->shape);
  }
  run_layer(weights, hidden);
}

}  // namespace

std::unique_ptr<LayerSolver> make_gptq_layers(Stream& stream, const Format& format,
                                              const FormatOptions& options,
                                              std::optional<double> damping) {
  return std::make_unique<GptqLayers>(
      stream, format,
      GptqOptions{
          .group_columns = options.group_columns,
          .order = options.act_order ? GptqOrder::kActivation : GptqOrder::kGroupsByActivation,
          .damping = damping.value_or(GptqOptions().damping)});
}

}  // namespace caption::quantise
