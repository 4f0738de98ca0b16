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
  std::int64_t work(const LayerPlan& layer, const HiddenStates& hidden) const override;

 private:
  // What the sets of matrices of a layer share.
  struct Layer {
    const LayerPlan& plan;
    LayerWeights& weights;
    NewTensors& made;
    const OnWork& on_work;
  };
  // Rounds matrices with these inputs, and puts the rounded numbers in their place.
  void solve(const Layer& layer, Matrices matrices, InputMoments moments);

  Stream& stream_;
  const Format& format_;
  GptqOptions options_;
};

void GptqLayers::solve(const Layer& layer, Matrices matrices, InputMoments moments) {
  const std::string& first = layer.plan.names.matrices[*matrices.begin()];
  const auto fail = [](const std::string& tensor, const Error& error) {
    return Error(error.code(), "tensor \"" + tensor + "\": " + error.what());
  };
  std::optional<GptqHessian> hessian;
  try {
    // The moments are freed before the matrices are solved.
    const InputMoments inputs = std::move(moments);
    hessian.emplace(stream_, inputs, options_, layer.on_work);
  } catch (const Error& error) {
    throw fail(first, error);
  }
  if (hessian->damping() > options_.damping) {
    log_detail("quantize", first + ": damping " + std::to_string(hessian->damping()));
  }
  for (const MatrixIndex matrix : matrices) {
    const TensorPlan* const plan = layer.plan.matrices[matrix];
    if (plan == nullptr) continue;
    Tensor& weight = layer.weights.matrices[matrix];
    try {
      const GptqSolution solution = solve_gptq(stream_, weight.view(), *hessian, layer.on_work);
      std::vector<Bytes> parts = format_.pack(stream_.pool(), solution.matrix);
      report_work(layer.on_work, 0);
      weight = decode_gptq(parts, plan->matrix->shape);
      report_work(layer.on_work, 0);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        layer.made[plan->parts[i].name] = std::move(parts[i]);
      }
    } catch (const Error& error) {
      throw fail(plan->name, error);
    }
  }
}

NewTensors GptqLayers::make(const LayerPlan& layer, LayerWeights weights, HiddenStates& hidden) {
  NewTensors made;
  const OnWork& on_work = hidden.on_work();
  const Layer changed{.plan = layer, .weights = weights, .made = made, .on_work = on_work};
  const auto add_to = [this, &on_work](InputMoments& moments) {
    return [this, &on_work, &moments](ConstView rows) { moments.add(stream_, rows, on_work); };
  };
  {
    InputMoments moments(weights.matrices[kQ].dim(1));
    hidden.show_attention_inputs(weights.views(), add_to(moments));
    solve(changed, {kQ, kK, kV}, std::move(moments));
  }
  hidden.attend(weights.views());
  {
    InputMoments moments(weights.matrices[kO].dim(1));
    moments.add(stream_, hidden.attended(), on_work);
    solve(changed, {kO}, std::move(moments));
  }
  hidden.add_attention(weights.views());
  {
    InputMoments moments(weights.matrices[kGate].dim(1));
    hidden.show_mlp_inputs(weights.views(), add_to(moments));
    solve(changed, {kGate, kUp}, std::move(moments));
  }
  {
    InputMoments moments(weights.matrices[kDown].dim(1));
    hidden.show_down_inputs(weights.views(), add_to(moments));
    solve(changed, {kDown}, std::move(moments));
  }
  hidden.add_mlp(weights.views());
  return made;
}

std::int64_t GptqLayers::work(const LayerPlan& layer, const HiddenStates& hidden) const {
  std::int64_t sum = run_work(hidden) + hidden.gate_up_work();
  const auto add_set = [&](std::int64_t columns, Matrices matrices) {
    sum += hidden.num_tokens() * moments_work(columns) + GptqHessian::work(columns);
    for (const MatrixIndex i : matrices) {
      const TensorPlan* const plan = layer.matrices[i];
      if (plan != nullptr) sum += plan->matrix->shape[0] * gptq_work(columns);
    }
  };
  add_set(hidden.spec().hidden, {kQ, kK, kV});
  add_set(hidden.spec().q_dim(), {kO});
  add_set(hidden.spec().hidden, {kGate, kUp});
  add_set(hidden.spec().intermediate, {kDown});
  return sum;
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
