// quantise/internal/layer_solver.h: makes the tensors of one decoder layer with the inputs that its
// matrices see.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/stream.h"
#include "quantise/format.h"
#include "quantise/internal/checkpoint_plan.h"
#include "quantise/internal/decoder_layers.h"
#include "quantise/internal/hidden_states.h"
#include "quantise/quantise_checkpoint.h"
#include "weights/checkpoint.h"
#include "weights/safetensors_writer.h"

namespace caption::quantise {

// A layer's tensors, and what becomes of its matrices.
struct LayerPlan {
  LayerNames names;
  std::array<const TensorPlan*, kNumMatrices> matrices = {};  // null: stays as it is
  std::array<const TensorPlan*, kNumMatrices> biases = {};    // null: the layer has none
  const TensorPlan* input_norm = nullptr;
  const TensorPlan* post_attention_norm = nullptr;
};

using NewTensors = std::map<std::string, Bytes>;  // keyed by the tensors' names in the output

// For one thread at a time.
class LayerSolver {
 public:
  virtual ~LayerSolver() = default;

  // The tensors that make() returns.
  virtual std::vector<weights::PlannedTensor> parts(const LayerPlan& layer) const = 0;
  // Makes them, and moves the hidden states from the layer's inputs to its outputs. `weights` are
  // those of the source. Reports its work as the hidden states do. Throws Error(kBadModel) naming
  // the tensor when numbers are not finite.
  virtual NewTensors make(const LayerPlan& layer, LayerWeights weights, HiddenStates& hidden) = 0;
  // Moves the hidden states in the same way; `made` has the tensors of an earlier call.
  virtual void pass(const LayerPlan& layer, LayerWeights weights, const weights::Checkpoint& made,
                    HiddenStates& hidden) = 0;
  // The multiply-adds that make() reports.
  virtual std::int64_t work(const LayerPlan& layer, const HiddenStates& hidden) const = 0;
};

// GPTQ (quantise/gptq_solver.h), in GPTQModel's order: q, k, v; o; gate, up; down, each with the
// inputs that it has after the earlier ones are rounded; the next layer sees the rounded layer's
// outputs.
std::unique_ptr<LayerSolver> make_gptq_layers(Stream& stream, const Format& format,
                                              const FormatOptions& options,
                                              std::optional<double> damping);
// AWQ's scales (quantise/awq_search.h), and GPTQ's codes on them in the same order.
std::unique_ptr<LayerSolver> make_awq_layers(Stream& stream, const Format& format,
                                             const FormatOptions& options);

// Runs the layer over all prompts.
void run_layer(const LayerWeights& weights, HiddenStates& hidden);
// The multiply-adds that run_layer() reports, and so pass().
std::int64_t run_work(const HiddenStates& hidden);

// Numbers as `dtype` holds them. Throws Error(kBadModel) when one is beyond its range.
Bytes encode_numbers(ConstView numbers, DType dtype);

}  // namespace caption::quantise
