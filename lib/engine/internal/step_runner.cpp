#include "engine/internal/step_runner.h"

#include <algorithm>

#include "engine/internal/page_bytes.h"
#include "kv/page_pool.h"

namespace caption::engine {
namespace {

std::int64_t most_step_tokens(const EngineOptions& options, std::int64_t num_pages) {
  return std::min<std::int64_t>(options.max_num_batched_tokens, num_pages * kv::kPageTokens);
}

// Every row of logits belongs to a token of the step.
std::int64_t most_logit_rows(const EngineOptions& options) {
  return std::min<std::int64_t>(std::int64_t{options.max_num_seqs} * (1 + options.max_drafts),
                                std::max(options.max_num_batched_tokens, options.max_num_seqs));
}

}  // namespace

StepRunner::StepRunner(model::Decoder& decoder, Stream& stream, const EngineOptions& options,
                       std::int64_t num_pages)
    : decoder_(decoder),
      stream_(stream),
      memory_(stream.device(), decoder.spec(), options.kv_dtype, num_pages),
      builder_(
          {.device = stream.device(),
           .position_axes = decoder.spec().position_axes(),
           .max_tokens = most_step_tokens(options, num_pages),
           .max_sequences = options.max_num_seqs,
           .max_pages = std::min(num_pages, kv::pages_for_tokens(decoder.spec().max_positions)),
           .max_logit_rows = most_logit_rows(options)}),
      logits_(stream.device(), DType::kF32, {most_logit_rows(options), decoder.spec().vocab}) {
  decoder.reserve(most_step_tokens(options, num_pages), most_logit_rows(options));
}

void StepRunner::copy_page(const kv::PageCopy& copy) {
  engine::copy_page(stream_, memory_.views(), copy);
}

View StepRunner::run() {
  const model::StepBatch& batch = builder_.finish(stream_);
  const std::int64_t num_rows = batch.num_logit_rows();
  decoder_.forward(stream_, batch, memory_.views(), logits_.device().rows(0, num_rows));
  logits_.download(stream_, num_rows);
  return logits_.host().rows(0, num_rows);
}

}  // namespace caption::engine
