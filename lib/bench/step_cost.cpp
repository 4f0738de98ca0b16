#include "bench/step_cost.h"

#include <algorithm>

namespace caption::bench {

double StepCost::seconds(double bytes_per_s, double flops_per_s) const {
  return std::max(bytes / bytes_per_s, flops / flops_per_s);
}

bool StepCost::is_bound_by_bandwidth(double bytes_per_s, double flops_per_s) const {
  return bytes / bytes_per_s >= flops / flops_per_s;
}

StepCost cost_of(const model::TextShape& shape, WeightLayout weights, DType kv_dtype,
                 const StepWork& work) {
  const auto head_weights = static_cast<double>(shape.vocab * shape.hidden);
  std::int64_t layer_weights = 0;
  for (const model::LinearShape& matrix : model::layer_matrices(shape)) {
    layer_weights += shape.num_layers * matrix.num_weights();
  }
  StepCost cost;
  cost.flops = 2 * work.new_tokens * static_cast<double>(layer_weights) +
               4 * static_cast<double>(shape.num_layers * shape.q_dim()) * work.attended_tokens +
               2 * work.logit_rows * head_weights;
  cost.bytes = work.steps * static_cast<double>(projection_bytes(shape, weights) +
                                                head_bytes(shape, weights)) +
               static_cast<double>(kv_token_bytes(shape, kv_dtype)) *
                   (work.context_tokens + work.new_tokens);
  return cost;
}

std::int64_t kv_token_bytes(const model::TextShape& shape, DType dtype) {
  const std::int64_t rows = 2 * shape.num_layers * shape.num_kv_heads;
  const auto element_bytes = static_cast<std::int64_t>(dtype_size_bytes(dtype));
  const std::int64_t scale_bytes = dtype == DType::kI8 ? 2 : 0;
  return rows * (shape.head_dim * element_bytes + scale_bytes);
}

}  // namespace caption::bench
