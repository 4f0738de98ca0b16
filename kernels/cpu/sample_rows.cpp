#include "kernels/sample_rows.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/refusal.h"
#include "sampling/sampler.h"

namespace caption::kernels::impl {
namespace {

struct Workspace {
  explicit Workspace(std::int64_t vocab)
      : sampler(vocab), logits(static_cast<std::size_t>(vocab)) {}

  sampling::Sampler sampler;
  std::vector<float> logits;
};

Workspace& workspace_for(std::int64_t vocab) {
  thread_local std::unique_ptr<Workspace> workspace;
  if (workspace == nullptr || std::ssize(workspace->logits) != vocab) {
    workspace = std::make_unique<Workspace>(vocab);
  }
  return *workspace;
}

std::int32_t sample_row(sampling::Sampler& sampler, const RowSampling& row,
                        std::span<const std::int32_t> ids, std::span<float> logits) {
  sampling::SamplingParams params;
  params.temperature = static_cast<double>(row.temperature);
  params.top_k = row.top_k;
  params.top_p = row.top_p;
  params.repetition_penalty = static_cast<double>(row.repetition_penalty);
  params.no_repeat_ngram_size = row.no_repeat_ngram_size;
  params.seed = row.seed;
  // -inf stays what it is under the penalties.
  for (const std::int32_t id : ids.subspan(static_cast<std::size_t>(row.first_banned),
                                           static_cast<std::size_t>(row.num_banned))) {
    logits[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
  const sampling::History history{.ids = ids.subspan(static_cast<std::size_t>(row.first_id),
                                                     static_cast<std::size_t>(row.num_ids)),
                                  .num_prompt = row.num_ids - static_cast<std::int64_t>(row.draw)};
  try {
    return sampler.sample(params, history, logits);
  } catch (const Error&) {
    return cpu::describe_refusal(logits);
  }
}

}  // namespace

void sample_rows(Cpu, Stream&, const SampleRows& input, View tokens) {
  const std::int64_t vocab = input.logits.dim(1);
  auto& [sampler, logits] = workspace_for(vocab);
  const std::span ids(input.ids.as<std::int32_t>(), static_cast<std::size_t>(input.ids.dim(0)));
  for (std::int64_t r = 0; r < tokens.dim(0); ++r) {
    RowSampling row;
    std::memcpy(static_cast<void*>(&row), input.rows.as<std::int8_t>() + r * kRowSamplingBytes,
                sizeof row);
    std::copy_n(input.logits.as<float>() + r * input.logits.row_stride(), vocab, logits.begin());
    tokens.as<std::int32_t>()[r] = sample_row(sampler, row, ids, logits);
  }
}

}  // namespace caption::kernels::impl
