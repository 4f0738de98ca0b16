// plan/step_cost.h: arithmetic and memory traffic of a decoder's steps, counted from its shape.
//   FLOPs = 2 * tokens * layer weights + 4 * layers * heads * head_dim * attended keys
//           + 2 * logit rows * vocab * hidden
//   bytes = layer weights and LM head once per step + KV of the contexts + KV written
// These are the minimum of any implementation; activations, which stay in caches, are excluded.
#pragma once

#include <cstdint>

#include "model/blueprint.h"
#include "model/decoder.h"
#include "tensor/dtype.h"
#include "weights/format.h"

namespace caption::plan {

// The work of one step, or of several steps together.
struct StepWork {
  double steps = 1;
  double new_tokens = 0;       // tokens computed
  double attended_tokens = 0;  // number of attended keys, summed over the computed tokens
  double context_tokens = 0;   // context tokens whose K and V are read, summed over the steps
  double logit_rows = 0;
};

struct StepCost {
  double flops = 0;
  double bytes = 0;

  double intensity() const { return bytes > 0 ? flops / bytes : 0; }  // FLOP per byte
  // Least time in seconds at these rates.
  double seconds(double bytes_per_s, double flops_per_s) const;
  bool is_bound_by_bandwidth(double bytes_per_s, double flops_per_s) const;
};

// The cost for a model's decoder; matrices of which the file holds codes that the format keeps are
// read as these. The blueprint must have a decoder.
StepCost cost_of(const model::Blueprint& model, weights::WeightFormat format, DType kv_dtype,
                 const StepWork& work);
// The same for a decoder without codes.
StepCost cost_of(const model::DecoderSpec& spec, weights::WeightFormat format, DType kv_dtype,
                 const StepWork& work);

}  // namespace caption::plan
