#include "bench/run_cost.h"

#include <algorithm>

#include "base/math.h"
#include "kv/page_pool.h"

namespace caption::bench {
namespace {

// Number of keys attended by the tokens [first, last) of a sequence: token i attends to i + 1 keys.
double attended(std::int64_t first, std::int64_t last) {
  return (as_double(last) * as_double(last + 1) - as_double(first) * as_double(first + 1)) / 2;
}

}  // namespace

plan::StepCost cost_of_run(const DecoderCosts& costs, DType kv_dtype,
                           std::span<const SequenceLengths> sequences,
                           const engine::EngineStats& stats) {
  plan::StepWork work;
  work.steps = as_double(stats.steps);
  work.new_tokens = as_double(stats.prefill_tokens + stats.decode_tokens);
  double computed_once = 0;
  for (const SequenceLengths& sequence : sequences) {
    // The last token is sampled, but not computed.
    const std::int64_t end =
        sequence.prompt_tokens + std::max<std::int64_t>(sequence.output_tokens, 1) - 1;
    work.attended_tokens += attended(sequence.cached_tokens, end);
    work.logit_rows += as_double(sequence.output_tokens);
    computed_once += as_double(end - sequence.cached_tokens);
  }
  if (computed_once > 0) work.attended_tokens *= work.new_tokens / computed_once;
  work.context_tokens =
      work.steps * stats.mean_pages_used * as_double(kv::kPageTokens) * (1 - stats.mean_page_waste);
  return plan::cost_of(costs.model, costs.weights, kv_dtype, work);
}

}  // namespace caption::bench
