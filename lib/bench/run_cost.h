// bench/run_cost.h: the minimum arithmetic and memory traffic of an engine's run, from its counters
// and the lengths of its sequences.
#pragma once

#include <cstdint>
#include <span>

#include "engine/engine.h"
#include "model/blueprint.h"
#include "plan/step_cost.h"
#include "tensor/dtype.h"

namespace caption::bench {

// What determines the cost of a step.
struct DecoderCosts {
  // Has a decoder; its parameters name the codes that the model's files hold.
  model::Blueprint model;
  weights::WeightFormat weights = weights::WeightFormat::kBF16;
};

struct SequenceLengths {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // prompt tokens that were found in the cache and not computed
  std::int64_t output_tokens = 0;
};

// Counts the weights once per step, and each page once per step and referencing sequence. Tokens
// that were computed again after a preemption count at the mean length of the others.
plan::StepCost cost_of_run(const DecoderCosts& costs, DType kv_dtype,
                           std::span<const SequenceLengths> sequences,
                           const engine::EngineStats& stats);

}  // namespace caption::bench
