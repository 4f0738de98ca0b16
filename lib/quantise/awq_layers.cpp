#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "quantise/awq_search.h"
#include "quantise/input_moments.h"
#include "quantise/internal/awq_parts.h"
#include "quantise/internal/config_json.h"
#include "quantise/internal/set_solver.h"

namespace caption::quantise {
namespace {

using weights::PlannedTensor;
using Scales = std::vector<float>;

// Sum of (a - b)^2 over two matrices of one shape.
double squared_difference(ConstView a, ConstView b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.dim(0); ++i) {
    const float* const left = a.rows(i, 1).as<float>();
    const float* const right = b.rows(i, 1).as<float>();
    float row = 0;
    for (std::int64_t k = 0; k < a.dim(1); ++k) {
      const float difference = left[k] - right[k];
      row += difference * difference;
    }
    sum += static_cast<double>(row);
  }
  return sum;
}

// The dtype of a tensor that keeps its own.
DType dtype_of(const TensorPlan& tensor) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (tensor.parts.front().dtype == file_name(dtype)) return dtype;
  }
  throw Error(ErrorCode::kBadModel, "tensor \"" + tensor.name +
                                        "\" holds no f32, bf16 or f16; save the "
                                        "model again in one of them");
}

// Which sets of matrices with the same input are scaled; the others have a matrix that stays as it
// is, or no matrix before them that could be divided.
struct ScaledSets {
  bool qkv = false;      // input_norm is divided
  bool o = false;        // rows of v
  bool gate_up = false;  // post_attention_norm
  bool down = false;     // rows of up
};

ScaledSets scaled_sets(const LayerPlan& layer) {
  const auto has = [&](MatrixIndex i) { return layer.matrices[i] != nullptr; };
  ScaledSets sets;
  sets.qkv = has(kQ) && has(kK) && has(kV);
  sets.o =
      has(kV) && has(kO) && layer.matrices[kV]->matrix->shape == layer.matrices[kO]->matrix->shape;
  sets.gate_up = has(kGate) && has(kUp);
  sets.down = has(kUp) && has(kDown);
  return sets;
}

// One layer.
class AwqLayer {
 public:
  AwqLayer(Stream& stream, const SetSolver& solver, const AwqOptions& options,
           const LayerPlan& plan, LayerWeights weights, HiddenStates& hidden)
      : stream_(stream),
        solver_(solver),
        options_(options),
        plan_(plan),
        sets_(scaled_sets(plan)),
        weights_(std::move(weights)),
        hidden_(hidden),
        on_work_(hidden.on_work()) {}

  NewTensors make() {
    round_attention();
    round_mlp();
    return std::move(made_);
  }

 private:
  void round_attention();
  void round_mlp();
  Scales search_qkv();
  Scales search_o();
  Scales search_gate_up();
  Scales search_down();
  void fold(MatrixIndex matrix, const Scales& scales) {
    multiply_columns(stream_.pool(), weights_.matrices[matrix].view(), scales);
  }
  Scales fold_into_norm(Tensor& norm, const TensorPlan& plan, const Scales& scales);
  void fold_into_rows(MatrixIndex matrix, const Scales& scales);
  void solve(Matrices matrices, InputMoments moments) {
    solver_.solve({.plan = plan_, .weights = weights_, .made = made_, .on_work = on_work_},
                  matrices, std::move(moments));
  }
  HiddenStates::See add_to(InputMoments& moments) {
    return [this, &moments](ConstView rows) { moments.add(stream_, rows, on_work_); };
  }

  Stream& stream_;
  const SetSolver& solver_;
  const AwqOptions& options_;
  const LayerPlan& plan_;
  const ScaledSets sets_;
  LayerWeights weights_;
  HiddenStates& hidden_;
  const OnWork& on_work_;
  NewTensors made_;
};

// The module is the attention with its output projection.
Scales AwqLayer::search_qkv() {
  const model::DecoderLayerViews views = weights_.views();
  InputMagnitudes magnitudes(weights_.matrices[kQ].dim(1));
  hidden_.show_attention_inputs(views, [&](ConstView rows) { magnitudes.add(rows); });
  Tensor expected(DType::kF32, hidden_.rows().shape());
  model::apply_dense(stream_, views.o, hidden_.attended(), expected.view(), on_work_);
  const ModuleLoss loss = [&](std::span<const ConstView> candidates) {
    model::DecoderLayerViews changed = views;
    changed.q.weight = candidates[0];
    changed.k.weight = candidates[1];
    changed.v.weight = candidates[2];
    double sum = 0;
    std::int64_t first = 0;
    hidden_.show_attended(changed, [&](ConstView attended) {
      Tensor output(DType::kF32, {attended.dim(0), expected.dim(1)});
      model::apply_dense(stream_, views.o, attended, output.view(), on_work_);
      sum += squared_difference(output.view(), expected.view().rows(first, attended.dim(0)));
      first += attended.dim(0);
    });
    return sum / static_cast<double>(expected.num_elements());
  };
  const ConstView matrices[] = {views.q.weight, views.k.weight, views.v.weight};
  return search_scales(stream_.pool(), matrices, magnitudes.means(), loss, options_).scales;
}

// A linear module's loss follows from the second moments of its inputs.
Scales AwqLayer::search_o() {
  const ConstView attended = hidden_.attended();
  InputMagnitudes magnitudes(attended.dim(1));
  InputMoments moments(attended.dim(1));
  magnitudes.add(attended);
  moments.add(stream_, attended, on_work_);
  const ConstView matrix = std::as_const(weights_.matrices[kO]).view();
  const ModuleLoss loss = linear_loss(stream_, matrix, moments, on_work_);
  return search_scales(stream_.pool(), std::span(&matrix, 1), magnitudes.means(), loss, options_)
      .scales;
}

// The module is the whole MLP.
Scales AwqLayer::search_gate_up() {
  const model::DecoderLayerViews views = weights_.views();
  InputMagnitudes magnitudes(weights_.matrices[kGate].dim(1));
  hidden_.show_mlp_inputs(views, [&](ConstView rows) { magnitudes.add(rows); });
  Tensor expected(DType::kF32, hidden_.rows().shape());
  std::int64_t first = 0;
  hidden_.show_down_inputs(views, [&](ConstView inner) {
    model::apply_dense(stream_, views.down, inner, expected.view().rows(first, inner.dim(0)),
                       on_work_);
    first += inner.dim(0);
  });
  Tensor output(DType::kF32, {HiddenStates::kPieceRows, expected.dim(1)});
  const ModuleLoss loss = [&](std::span<const ConstView> candidates) {
    model::DecoderLayerViews changed = views;
    changed.gate.weight = candidates[0];
    changed.up.weight = candidates[1];
    double sum = 0;
    std::int64_t row = 0;
    hidden_.show_down_inputs(changed, [&](ConstView inner) {
      const View piece = output.view().rows(0, inner.dim(0));
      model::apply_dense(stream_, views.down, inner, piece, on_work_);
      sum += squared_difference(piece, expected.view().rows(row, inner.dim(0)));
      row += inner.dim(0);
    });
    return sum / static_cast<double>(expected.num_elements());
  };
  const ConstView matrices[] = {views.gate.weight, views.up.weight};
  return search_scales(stream_.pool(), matrices, magnitudes.means(), loss, options_).scales;
}

Scales AwqLayer::search_down() {
  const ConstView matrix = std::as_const(weights_.matrices[kDown]).view();
  InputMagnitudes magnitudes(matrix.dim(1));
  InputMoments moments(matrix.dim(1));
  hidden_.show_down_inputs(weights_.views(), [&](ConstView inner) {
    magnitudes.add(inner);
    moments.add(stream_, inner, on_work_);
  });
  const ModuleLoss loss = linear_loss(stream_, matrix, moments, on_work_);
  return search_scales(stream_.pool(), std::span(&matrix, 1), magnitudes.means(), loss, options_)
      .scales;
}

// Scales of both sets are searched on the layer's own attention, before anything in it is rounded.
void AwqLayer::round_attention() {
  if (sets_.qkv || sets_.o) hidden_.attend(weights_.views());
  const Scales qkv = sets_.qkv ? search_qkv() : Scales();
  const Scales o = sets_.o ? search_o() : Scales();
  if (sets_.qkv) {
    const Scales exact = fold_into_norm(weights_.input_norm, *plan_.input_norm, qkv);
    for (const MatrixIndex matrix : {kQ, kK, kV}) fold(matrix, exact);
  }
  if (sets_.o) {
    fold_into_rows(kV, o);
    fold(kO, o);
  }
  {
    InputMoments moments(weights_.matrices[kQ].dim(1));
    hidden_.show_attention_inputs(weights_.views(), add_to(moments));
    solve({kQ, kK, kV}, std::move(moments));
  }
  hidden_.attend(weights_.views());
  {
    InputMoments moments(weights_.matrices[kO].dim(1));
    moments.add(stream_, hidden_.attended(), on_work_);
    solve({kO}, std::move(moments));
  }
  hidden_.add_attention(weights_.views());
}

void AwqLayer::round_mlp() {
  const Scales gate_up = sets_.gate_up ? search_gate_up() : Scales();
  const Scales down = sets_.down ? search_down() : Scales();
  if (sets_.gate_up) {
    const Scales exact =
        fold_into_norm(weights_.post_attention_norm, *plan_.post_attention_norm, gate_up);
    for (const MatrixIndex matrix : {kGate, kUp}) fold(matrix, exact);
  }
  if (sets_.down) {
    fold_into_rows(kUp, down);
    fold(kDown, down);
  }
  {
    InputMoments moments(weights_.matrices[kGate].dim(1));
    hidden_.show_mlp_inputs(weights_.views(), add_to(moments));
    solve({kGate, kUp}, std::move(moments));
  }
  {
    InputMoments moments(weights_.matrices[kDown].dim(1));
    hidden_.show_down_inputs(weights_.views(), add_to(moments));
    solve({kDown}, std::move(moments));
  }
  hidden_.add_mlp(weights_.views());
}

// Divides a norm's weight, rounded to its dtype in the file. Returns the quotients of the weights
// before and after, by which the columns have to be multiplied.
Scales AwqLayer::fold_into_norm(Tensor& norm, const TensorPlan& plan, const Scales& scales) {
  const Tensor before = norm.clone();
  divide(norm.view(), scales);
  const DType dtype = dtype_of(plan);
  Bytes bytes = encode_numbers(std::as_const(norm).view(), dtype);
  norm = to_f32(ConstView(bytes.data(), dtype, norm.shape()));
  Scales exact = scales;
  for (std::size_t k = 0; k < exact.size(); ++k) {
    const float after = norm.as<float>()[k];
    if (after != 0) exact[k] = before.as<float>()[k] / after;
  }
  made_[plan.name] = std::move(bytes);
  return exact;
}

void AwqLayer::fold_into_rows(MatrixIndex matrix, const Scales& scales) {
  divide(weights_.matrices[matrix].view(), scales);
  Tensor& bias = weights_.biases[matrix];
  if (bias.empty()) return;
  divide(bias.view(), scales);
  const TensorPlan& plan = *plan_.biases[matrix];
  const DType dtype = dtype_of(plan);
  Bytes bytes = encode_numbers(std::as_const(bias).view(), dtype);
  bias = to_f32(ConstView(bytes.data(), dtype, bias.shape()));
  made_[plan.name] = std::move(bytes);
}

class AwqLayers final : public LayerSolver {
 public:
  AwqLayers(Stream& stream, const Format& format, const FormatOptions& options)
      : stream_(stream),
        options_{.group_columns = options.group_columns},
        solver_(stream, format,
                {.group_columns = options.group_columns, .symmetric = false, .clips = true},
                decode_awq) {}

  std::vector<PlannedTensor> parts(const LayerPlan& layer) const override;
  NewTensors make(const LayerPlan& layer, LayerWeights weights, HiddenStates& hidden) override {
    try {
      return AwqLayer(stream_, solver_, options_, layer, std::move(weights), hidden).make();
    } catch (const Error& error) {
      throw Error(error.code(), "the layer of \"" + layer.names.input_norm + "\": " + error.what());
    }
  }
  void pass(const LayerPlan& layer, LayerWeights weights, const weights::Checkpoint& made,
            HiddenStates& hidden) override;
  std::int64_t work(const LayerPlan& layer, const HiddenStates& hidden) const override;

 private:
  Stream& stream_;
  AwqOptions options_;
  SetSolver solver_;
};

std::vector<PlannedTensor> AwqLayers::parts(const LayerPlan& layer) const {
  std::vector<PlannedTensor> all;
  for (const TensorPlan* const matrix : layer.matrices) {
    if (matrix != nullptr) all.insert(all.end(), matrix->parts.begin(), matrix->parts.end());
  }
  const auto add = [&all](const TensorPlan* tensor) {
    if (tensor != nullptr) all.push_back(tensor->parts.front());
  };
  const ScaledSets sets = scaled_sets(layer);
  if (sets.qkv) add(layer.input_norm);
  if (sets.gate_up) add(layer.post_attention_norm);
  if (sets.o) add(layer.biases[kV]);
  if (sets.down) add(layer.biases[kUp]);
  return all;
}

void AwqLayers::pass(const LayerPlan& layer, LayerWeights weights, const weights::Checkpoint& made,
                     HiddenStates& hidden) {
  const auto read = [&made](const TensorPlan* plan, Tensor& tensor) {
    if (plan == nullptr) return;
    if (const auto found = made.find(plan->name)) tensor = to_f32(*found);
  };
  read(layer.input_norm, weights.input_norm);
  read(layer.post_attention_norm, weights.post_attention_norm);
  for (std::size_t i = 0; i < kNumMatrices; ++i) read(layer.biases[i], weights.biases[i]);
  solver_.read(layer, made, weights);
  run_layer(weights, hidden);
}

std::int64_t AwqLayers::work(const LayerPlan& layer, const HiddenStates& hidden) const {
  const ScaledSets sets = scaled_sets(layer);
  const std::int64_t tokens = hidden.num_tokens();
  const std::int64_t attention = hidden.attend_work() + hidden.o_work();
  const std::int64_t ratios = options_.num_ratios;
  // The inputs of down are computed once for their moments, and once more for the outputs.
  std::int64_t sum = run_work(hidden) + hidden.gate_up_work() + SetSolver::work(layer, hidden);
  if (sets.qkv || sets.o) sum += hidden.attend_work();
  if (sets.qkv) sum += hidden.o_work() + ratios * attention;
  if (sets.gate_up) sum += (1 + ratios) * hidden.mlp_work();
  if (sets.down) sum += hidden.gate_up_work();
  // The moments of the inputs, and a loss of each ratio.
  const auto add_linear = [&](MatrixIndex i) {
    const Shape& shape = layer.matrices[i]->matrix->shape;
    sum += (tokens + ratios * shape[0]) * moments_work(shape[1]);
  };
  if (sets.o) add_linear(kO);
  if (sets.down) add_linear(kDown);
  return sum;
}

}  // namespace

std::unique_ptr<LayerSolver> make_awq_layers(Stream& stream, const Format& format,
                                             const FormatOptions& options) {
  return std::make_unique<AwqLayers>(stream, format, options);
}

}  // namespace caption::quantise
