#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/error.h"
#include "quantise/awq_search.h"
#include "quantise/input_moments.h"
#include "quantise/internal/config_json.h"
#include "quantise/internal/layer_solver.h"

namespace caption::quantise {
namespace {

using weights::PlannedTensor;
using Scales = std::vector<float>;

// Every s-th row of a matrix that is seen piece by piece, as many as search_clip() looks at.
class RowSample {
 public:
  RowSample(std::int64_t num_rows, std::int64_t columns)
      : step_(step_of(num_rows)), rows_(DType::kF32, {count(num_rows), columns}) {}

  static std::int64_t count(std::int64_t num_rows) {
    return (num_rows + step_of(num_rows) - 1) / step_of(num_rows);
  }

  void add(ConstView rows) {
    const std::int64_t columns = rows_.dim(1);
    for (std::int64_t i = 0; i < rows.dim(0); ++i, ++seen_) {
      if (seen_ % step_ != 0) continue;
      std::memcpy(rows_.as<float>() + seen_ / step_ * columns, rows.rows(i, 1).as<float>(),
                  static_cast<std::size_t>(columns) * sizeof(float));
    }
  }
  // Divides the columns by the scales, if there are any.
  ConstView divided(const Scales& scales) {
    const std::int64_t columns = rows_.dim(1);
    for (std::int64_t i = 0; !scales.empty() && i < rows_.num_elements(); ++i) {
      rows_.as<float>()[i] /= scales[static_cast<std::size_t>(i % columns)];
    }
    return std::as_const(rows_).view();
  }

 private:
  static std::int64_t step_of(std::int64_t num_rows) {
    return std::max<std::int64_t>(1, num_rows / 512);
  }

  std::int64_t step_;
  std::int64_t seen_ = 0;
  Tensor rows_;
};

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

Tensor difference_of(ConstView a, ConstView b) {
  Tensor difference(DType::kF32, a.shape());
  for (std::int64_t i = 0; i < a.num_elements(); ++i) {
    difference.as<float>()[i] = a.as<float>()[i] - b.as<float>()[i];
  }
  return difference;
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

// One layer. The functions are called in their order.
class AwqLayer {
 public:
  AwqLayer(Stream& stream, const Format& format, const AwqOptions& options, const LayerPlan& plan,
           LayerWeights weights, HiddenStates& hidden)
      : stream_(stream),
        format_(format),
        options_(options),
        plan_(plan),
        sets_(scaled_sets(plan)),
        weights_(std::move(weights)),
        hidden_(hidden),
        on_work_(hidden.on_work()),
        attention_sample_(hidden.num_tokens(), weights_.matrices[kQ].dim(1)),
        o_sample_(hidden.num_tokens(), weights_.matrices[kO].dim(1)),
        mlp_sample_(hidden.num_tokens(), weights_.matrices[kGate].dim(1)),
        down_sample_(hidden.num_tokens(), weights_.matrices[kDown].dim(1)) {}

  void search_attention();
  void search_mlp();
  NewTensors round();

 private:
  Scales search_qkv();
  Scales search_o();
  Scales search_gate_up();
  Scales search_down();
  void fold(MatrixIndex matrix, const Scales& scales) {
    multiply_columns(stream_.pool(), weights_.matrices[matrix].view(), scales);
  }
  Scales fold_into_norm(Tensor& norm, const TensorPlan& plan, const Scales& scales);
  void fold_into_rows(MatrixIndex matrix, const Scales& scales);
  void clip(MatrixIndex matrix, ConstView inputs);

  Stream& stream_;
  const Format& format_;
  const AwqOptions& options_;
  const LayerPlan& plan_;
  const ScaledSets sets_;
  LayerWeights weights_;
  HiddenStates& hidden_;
  const OnWork& on_work_;
  RowSample attention_sample_, o_sample_, mlp_sample_, down_sample_;
  Scales qkv_, o_, gate_up_, down_;
  NewTensors made_;
};

// The module is the attention with its output projection.
Scales AwqLayer::search_qkv() {
  const model::DecoderLayerViews views = weights_.views();
  InputMagnitudes magnitudes(weights_.matrices[kQ].dim(1));
  hidden_.show_attention_inputs(views, [&](ConstView rows) {
    magnitudes.add(rows);
    attention_sample_.add(rows);
  });
  hidden_.attend(views);
  if (!sets_.qkv) return {};
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
  o_sample_.add(attended);
  if (!sets_.o) return {};
  InputMagnitudes magnitudes(attended.dim(1));
  InputMoments moments(attended.dim(1));
  magnitudes.add(attended);
  moments.add(stream_, attended, on_work_);
  const ConstView matrix = std::as_const(weights_.matrices[kO]).view();
  const ModuleLoss loss = [&](std::span<const ConstView> candidates) {
    return mean_squared_output(stream_, difference_of(candidates[0], matrix).view(), moments,
                               on_work_);
  };
  return search_scales(stream_.pool(), std::span(&matrix, 1), magnitudes.means(), loss, options_)
      .scales;
}

// The module is the whole MLP.
Scales AwqLayer::search_gate_up() {
  const model::DecoderLayerViews views = weights_.views();
  InputMagnitudes magnitudes(weights_.matrices[kGate].dim(1));
  hidden_.show_mlp_inputs(views, [&](ConstView rows) {
    magnitudes.add(rows);
    mlp_sample_.add(rows);
  });
  if (!sets_.gate_up) return {};
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
    down_sample_.add(inner);
    if (!sets_.down) return;
    magnitudes.add(inner);
    moments.add(stream_, inner, on_work_);
  });
  if (!sets_.down) return {};
  const ModuleLoss loss = [&](std::span<const ConstView> candidates) {
    return mean_squared_output(stream_, difference_of(candidates[0], matrix).view(), moments,
                               on_work_);
  };
  return search_scales(stream_.pool(), std::span(&matrix, 1), magnitudes.means(), loss, options_)
      .scales;
}

void AwqLayer::search_attention() {
  qkv_ = search_qkv();
  o_ = search_o();
  hidden_.add_attention(weights_.views());
}

void AwqLayer::search_mlp() {
  gate_up_ = search_gate_up();
  down_ = search_down();
  hidden_.add_mlp(weights_.views());
}

// Divides a norm's weight, rounded to its dtype in the file. Returns the quotients of the weights
// before and after, by which the columns have to be multiplied.
Scales AwqLayer::fold_into_norm(Tensor& norm, const TensorPlan& plan, const Scales& scales) {
  const Tensor before = norm.clone();
  divide(norm.view(), scales);
  const DType dtype = dtype_of(plan);
  Bytes bytes = encode_numbers(std::as_const(norm).view(), dtype);
  const Tensor after = to_f32(ConstView(bytes.data(), dtype, norm.shape()));
  Scales exact = scales;
  for (std::size_t k = 0; k < exact.size(); ++k) {
    if (after.as<float>()[k] != 0) exact[k] = before.as<float>()[k] / after.as<float>()[k];
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
  made_[plan.name] = encode_numbers(std::as_const(bias).view(), dtype_of(plan));
}

void AwqLayer::clip(MatrixIndex matrix, ConstView inputs) {
  if (plan_.matrices[matrix] == nullptr) return;
  const View rows = weights_.matrices[matrix].view();
  const std::vector<float> limits =
      search_clip(stream_, rows, inputs, options_.group_columns, on_work_);
  clip_groups(stream_.pool(), rows, limits, options_.group_columns);
}

NewTensors AwqLayer::round() {
  if (sets_.qkv) {
    qkv_ = fold_into_norm(weights_.input_norm, *plan_.input_norm, qkv_);
    for (const MatrixIndex matrix : {kQ, kK, kV}) fold(matrix, qkv_);
  }
  if (sets_.o) {
    fold_into_rows(kV, o_);
    fold(kO, o_);
  }
  if (sets_.gate_up) {
    gate_up_ = fold_into_norm(weights_.post_attention_norm, *plan_.post_attention_norm, gate_up_);
    for (const MatrixIndex matrix : {kGate, kUp}) fold(matrix, gate_up_);
  }
  if (sets_.down) {
    fold_into_rows(kUp, down_);
    fold(kDown, down_);
  }
  clip(kV, attention_sample_.divided(qkv_));
  clip(kO, o_sample_.divided(o_));
  const ConstView mlp_inputs = mlp_sample_.divided(gate_up_);
  clip(kGate, mlp_inputs);
  clip(kUp, mlp_inputs);
  clip(kDown, down_sample_.divided(down_));
  for (std::size_t i = 0; i < kNumMatrices; ++i) {
    const TensorPlan* const plan = plan_.matrices[i];
    if (plan == nullptr) continue;
    std::vector<Bytes> parts =
        format_.encode(stream_.pool(), std::as_const(weights_.matrices[i]).view());
    report_work(on_work_, 0);
    for (std::size_t p = 0; p < parts.size(); ++p) made_[plan->parts[p].name] = std::move(parts[p]);
  }
  return std::move(made_);
}

class AwqLayers final : public LayerSolver {
 public:
  AwqLayers(Stream& stream, const Format& format, const FormatOptions& options)
      : stream_(stream), format_(format), options_{.group_columns = options.group_columns} {}

  std::vector<PlannedTensor> parts(const LayerPlan& layer) const override;
  NewTensors make(const LayerPlan& layer, LayerWeights weights, HiddenStates& hidden) override {
    AwqLayer solved(stream_, format_, options_, layer, std::move(weights), hidden);
    try {
      solved.search_attention();
      solved.search_mlp();
      return solved.round();
    } catch (const Error& error) {
      throw Error(error.code(), "the layer of \"" + layer.names.input_norm + "\": " + error.what());
    }
  }
  void pass(const LayerPlan& /*layer*/, LayerWeights weights, const weights::Checkpoint& /*made*/,
            HiddenStates& hidden) override {
    run_layer(weights, hidden);
  }
  std::int64_t work(const LayerPlan& layer, const HiddenStates& hidden) const override;

 private:
  Stream& stream_;
  const Format& format_;
  AwqOptions options_;
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

std::int64_t AwqLayers::work(const LayerPlan& layer, const HiddenStates& hidden) const {
  const ScaledSets sets = scaled_sets(layer);
  const std::int64_t tokens = hidden.num_tokens();
  const std::int64_t attention = hidden.attend_work() + hidden.o_work();
  const std::int64_t ratios = options_.num_ratios;
  std::int64_t sum = run_work(hidden) + hidden.gate_up_work();
  if (sets.qkv) sum += hidden.o_work() + ratios * attention;
  if (sets.gate_up) sum += (1 + ratios) * hidden.mlp_work();
  // The moments of the inputs, and a loss of each ratio.
  const auto add_linear = [&](MatrixIndex i) {
    const Shape& shape = layer.matrices[i]->matrix->shape;
    sum += (tokens + ratios * shape[0]) * moments_work(shape[1]);
  };
  if (sets.o) add_linear(kO);
  if (sets.down) add_linear(kDown);
  for (const MatrixIndex i : {kV, kO, kGate, kUp, kDown}) {
    if (layer.matrices[i] == nullptr) continue;
    sum += clip_work(layer.matrices[i]->matrix->shape, RowSample::count(tokens),
                     options_.group_columns);
  }
  return sum;
}

}  // namespace

std::unique_ptr<LayerSolver> make_awq_layers(Stream& stream, const Format& format,
                                             const FormatOptions& options) {
  return std::make_unique<AwqLayers>(stream, format, options);
}

}  // namespace caption::quantise
