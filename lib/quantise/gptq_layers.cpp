#include <cstdint>
#include <optional>
#include <utility>

#include "quantise/internal/gptq_parts.h"
#include "quantise/internal/set_solver.h"

namespace caption::quantise {
namespace {

using weights::PlannedTensor;

class GptqLayers final : public LayerSolver {
 public:
  GptqLayers(Stream& stream, const Format& format, const GptqOptions& options)
      : stream_(stream), solver_(stream, format, options, decode_gptq) {}

  std::vector<PlannedTensor> parts(const LayerPlan& layer) const override {
    std::vector<PlannedTensor> all;
    for (const TensorPlan* const matrix : layer.matrices) {
      if (matrix != nullptr) all.insert(all.end(), matrix->parts.begin(), matrix->parts.end());
    }
    return all;
  }
  NewTensors make(const LayerPlan& layer, LayerWeights weights, HiddenStates& hidden) override;
  void pass(const LayerPlan& layer, LayerWeights weights, const weights::Checkpoint& made,
            HiddenStates& hidden) override {
    solver_.read(layer, made, weights);
    run_layer(weights, hidden);
  }
  std::int64_t work(const LayerPlan& layer, const HiddenStates& hidden) const override;

 private:
  Stream& stream_;
  SetSolver solver_;
};

NewTensors GptqLayers::make(const LayerPlan& layer, LayerWeights weights, HiddenStates& hidden) {
  NewTensors made;
  const OnWork& on_work = hidden.on_work();
  const SolvedLayer solved{.plan = layer, .weights = weights, .made = made, .on_work = on_work};
  const auto add_to = [this, &on_work](InputMoments& moments) {
    return [this, &on_work, &moments](ConstView rows) { moments.add(stream_, rows, on_work); };
  };
  {
    InputMoments moments(weights.matrices[kQ].dim(1));
    hidden.show_attention_inputs(weights.views(), add_to(moments));
    solver_.solve(solved, {kQ, kK, kV}, std::move(moments));
  }
  hidden.attend(weights.views());
  {
    InputMoments moments(weights.matrices[kO].dim(1));
    moments.add(stream_, hidden.attended(), on_work);
    solver_.solve(solved, {kO}, std::move(moments));
  }
  hidden.add_attention(weights.views());
  {
    InputMoments moments(weights.matrices[kGate].dim(1));
    hidden.show_mlp_inputs(weights.views(), add_to(moments));
    solver_.solve(solved, {kGate, kUp}, std::move(moments));
  }
  {
    InputMoments moments(weights.matrices[kDown].dim(1));
    hidden.show_down_inputs(weights.views(), add_to(moments));
    solver_.solve(solved, {kDown}, std::move(moments));
  }
  hidden.add_mlp(weights.views());
  return made;
}

std::int64_t GptqLayers::work(const LayerPlan& layer, const HiddenStates& hidden) const {
  return run_work(hidden) + hidden.gate_up_work() + SetSolver::work(layer, hidden);
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
          .damping = damping.value_or(GptqOptions().damping),
          .clips = true});
}

}  // namespace caption::quantise
