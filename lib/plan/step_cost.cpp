#include "plan/step_cost.h"

#include <algorithm>

namespace caption::plan {

double StepCost::seconds(double bytes_per_s, double flops_per_s) const {
  return std::max(bytes / bytes_per_s, flops / flops_per_s);
}

bool StepCost::is_bound_by_bandwidth(double bytes_per_s, double flops_per_s) const {
  return bytes / bytes_per_s >= flops / flops_per_s;
}

StepCost cost_of(const model::DecoderSpec& spec, weights::WeightFormat format, DType kv_dtype,
                 const StepWork& work) {
  return cost_of(model::decoder_blueprint(spec), format, kv_dtype, work);
}

StepCost cost_of(const model::Blueprint& blueprint, weights::WeightFormat format, DType kv_dtype,
                 const StepWork& work) {
  const model::DecoderSpec& spec = blueprint.text.value();
  const auto layer_weights = static_cast<double>(model::count_parameters(blueprint).projections);
  const auto head_weights = static_cast<double>(spec.vocab * spec.hidden);
  const std::int64_t read_bytes =
      model::weight_bytes(blueprint, format, weights::Role::kDecoderLinear) +
      model::weight_bytes(blueprint, format, weights::Role::kHead);
  StepCost cost;
  cost.flops = 2 * work.new_tokens * layer_weights +
               4 * static_cast<double>(spec.num_layers * spec.q_dim()) * work.attended_tokens +
               2 * work.logit_rows * head_weights;
  cost.bytes = work.steps * static_cast<double>(read_bytes) +
               static_cast<double>(model::kv_token_bytes(spec, kv_dtype)) *
                   (work.context_tokens + work.new_tokens);
  return cost;
}

}  // namespace caption::plan
