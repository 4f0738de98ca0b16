// bench/run_cost.h: what a run of an engine could not do without: arithmetic and memory traffic,
// from its counters and the lengths of its sequences.
#pragma once

#include <cstdint>
#include <span>

#include "bench/step_cost.h"
#include "engine/engine.h"
#include "model/model_shape.h"
#include "tensor/dtype.h"

namespace caption::bench {

// What the cost of a step is counted from.
struct DecoderCosts {
  model::TextShape shape;
  WeightLayout weights = WeightLayout::kBF16;
};

struct SequenceLengths {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt, found and not computed
  std::int64_t output_tokens = 0;
};

// Weights are counted once per step, and each page that a sequence names once per step however many
// name it. Tokens that preemption computes again count at the mean length of the others.
StepCost cost_of_run(const DecoderCosts& costs, DType kv_dtype,
                     std::span<const SequenceLengths> sequences, const engine::EngineStats& stats);

}  // namespace caption::bench
