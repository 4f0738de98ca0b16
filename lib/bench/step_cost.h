// bench/step_cost.h: arithmetic and memory traffic of a decoder's steps, counted from its shape.
//   FLOPs = 2 * tokens * layer weights + 4 * layers * heads * head_dim * attended keys
//           + 2 * logit rows * vocab * hidden
//   bytes = layer weights and LM head once per step + KV of the contexts + KV written
// What every implementation must do and move: activations, which stay in caches, are left out.
#pragma once

#include <cstdint>

#include "bench/weight_layout.h"
#include "model/model_shape.h"
#include "tensor/dtype.h"

namespace caption::bench {

// The work of one step, or of many together.
struct StepWork {
  double steps = 1;
  double new_tokens = 0;       // computed
  double attended_tokens = 0;  // keys that they attend to, summed over them
  double context_tokens = 0;   // whose K and V are read, summed over steps
  double logit_rows = 0;
};

struct StepCost {
  double flops = 0;
  double bytes = 0;

  double intensity() const { return bytes > 0 ? flops / bytes : 0; }  // FLOP per byte
  // The least time at these rates.
  double seconds(double bytes_per_s, double flops_per_s) const;
  bool is_bound_by_bandwidth(double bytes_per_s, double flops_per_s) const;
};

// The LM head is read in 16 bits unless the layout is f32.
StepCost cost_of(const model::TextShape& shape, WeightLayout weights, DType kv_dtype,
                 const StepWork& work);

// Bytes of K and V of a token over all layers; int8 with its scales (bf16 per token and head).
std::int64_t kv_token_bytes(const model::TextShape& shape, DType dtype);

}  // namespace caption::bench
