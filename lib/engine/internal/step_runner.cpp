#include "engine/internal/step_runner.h"

#include <algorithm>

#include "engine/internal/page_bytes.h"
#include "engine/self_draft.h"
#include "kernels/beam_candidates.h"
#include "kv/page_pool.h"
#include "model/step_scratch.h"

namespace caption::engine {
namespace {

std::int64_t most_step_tokens(const EngineOptions& options, std::int64_t num_pages) {
  return std::min<std::int64_t>(options.max_num_batched_tokens, num_pages * kv::kPageTokens);
}

std::int64_t most_logit_rows(const EngineOptions& options) {
  return step_limits(options).most_logit_rows();
}

// `num_pages` of the pool; guesses may go on in pages besides them.
std::int64_t most_sequence_pages(const model::Decoder& decoder, const EngineOptions& options,
                                 std::int64_t num_pages) {
  return std::min(num_pages + num_guess_pages(options),
                  kv::pages_for_tokens(decoder.spec().max_positions));
}

}  // namespace

StepRunner::StepRunner(model::Decoder& decoder, Stream& stream, const EngineOptions& options,
                       std::int64_t num_pages)
    : decoder_(decoder),
      stream_(stream),
      has_graphs_(has_graphs(stream) && decoder.can_be_recorded()),
      padding_page_(num_pages),
      most_rows_(std::min(most_step_tokens(options, num_pages), most_logit_rows(options))),
      memory_(stream.device(), decoder.spec(), options.kv_dtype,
              first_guess_page() + num_guess_pages(options)),
      builder_(stream, {.position_axes = decoder.spec().position_axes(),
                        .vocab = decoder.spec().vocab,
                        .max_tokens = most_step_tokens(options, num_pages),
                        .max_sequences = options.max_num_seqs + (has_graphs_ ? 1 : 0),
                        .max_pages = most_sequence_pages(decoder, options, num_pages),
                        .max_logit_rows = most_logit_rows(options),
                        .max_drafts = std::max(options.max_drafts, options.max_copied_tokens)}),
      graphs_(most_rows_, most_sequence_pages(decoder, options, num_pages)),
      logits_(stream.device(), DType::kF32, {most_logit_rows(options), decoder.spec().vocab}),
      tokens_(stream.device(), DType::kI32, {most_logit_rows(options)}),
      candidates_(stream.device(), DType::kI8, {0, kernels::kBeamCandidateBytes}) {
  decoder.reserve(most_step_tokens(options, num_pages), most_logit_rows(options));
  if (!stream.device().is_cuda()) return;
  stream.scratch(static_cast<std::size_t>(model::step_scratch_bytes(
      decoder.spec(), most_step_tokens(options, num_pages), most_logit_rows(options))));
}

void StepRunner::reserve(const Sequence& sequence) {
  builder_.reserve(sequence);
  if (!sequence.has_beams()) return;
  const std::int64_t most = logits_.shape()[0] * sampling::num_beam_candidates(sequence.sampling);
  if (candidates_.shape()[0] >= most) return;
  candidates_ = StagedTensor(stream_.device(), DType::kI8, {most, kernels::kBeamCandidateBytes});
}

void StepRunner::copy_page(const kv::PageCopy& copy) { engine::copy_page(stream_, memory_, copy); }

std::optional<StepShape> StepRunner::pad() {
  if (!has_graphs_ || stream_.profile() != nullptr || !builder_.is_plain_decode()) {
    return std::nullopt;
  }
  const StepShape shape = graphs_.padded({.rows = builder_.num_rows(),
                                          .table_pages = builder_.max_pages(),
                                          .chooses_tokens = builder_.sampled().are_any_chosen(),
                                          .beam_candidates = builder_.beams().num_candidates(),
                                          .leaves_out_layers = builder_.leaves_out_layers()});
  builder_.pad(shape.rows, shape.table_pages, padding_page_);
  return shape;
}

void StepRunner::launch(const model::StepBatch& batch) {
  const std::int64_t num_rows = batch.num_logit_rows();
  const View logits = logits_.device().rows(0, num_rows);
  decoder_.forward(stream_, batch, memory_.views(), logits);
  if (builder_.sampled().are_any_chosen()) {
    kernels::sample_rows(
        stream_,
        {.logits = logits, .rows = builder_.row_samplings(), .ids = builder_.sampled_ids()},
        tokens_.device().rows(0, num_rows));
  }
  const std::int64_t num_candidates = builder_.beams().num_candidates();
  if (num_candidates > 0) {
    kernels::beam_candidates(
        stream_, {.logits = logits, .rows = builder_.beam_rows(), .ids = builder_.beam_ids()},
        candidates_.device()
            .rows(0, num_rows * num_candidates)
            .reshape({num_rows, num_candidates, kernels::kBeamCandidateBytes}));
  }
}

void StepRunner::download_results(std::int64_t num_rows) {
  const SampledRows& sampled = builder_.sampled();
  if (sampled.are_any_chosen()) tokens_.download(stream_, 0, num_rows);
  const std::int64_t num_candidates = builder_.beams().num_candidates();
  if (num_candidates > 0) candidates_.download(stream_, 0, num_rows * num_candidates);
  for (const SampledRows::Range& range : sampled.host_rows()) {
    logits_.download(stream_, range.first, range.count);
  }
}

void StepRunner::run(const std::function<void()>& meanwhile) {
  const std::optional<StepShape> shape = pad();
  const model::StepBatch& batch = builder_.finish(stream_);
  if (shape.has_value()) {
    graphs_.run(stream_, *shape,
                {.arrays = batch.tokens.raw(),
                 .candidates = candidates_.device().raw(),
                 .stream_scratch = stream_.scratch(0),
                 .decoder_scratch_bytes = decoder_.scratch_bytes()},
                [&] { launch(batch); });
  } else {
    launch(batch);
  }
  download_results(batch.num_logit_rows());
  meanwhile();
  stream_.synchronize();
}

std::span<float> StepRunner::host_logits(std::int64_t first, std::int64_t count) {
  return {logits_.host().rows(first, count).as<float>(),
          static_cast<std::size_t>(count * spec().vocab)};
}

RequestRows StepRunner::rows(const Sequence& sequence, std::int64_t first, std::int64_t count) {
  const auto size = static_cast<std::size_t>(count);
  RequestRows rows;
  rows.count = count;
  if (sequence.has_beams()) {
    const std::int64_t row_size = builder_.beams().num_candidates();
    const View candidates = candidates_.host().rows(first * row_size, count * row_size);
    rows.candidates = {
        reinterpret_cast<const sampling::BeamCandidate*>(candidates.as<std::int8_t>()),
        static_cast<std::size_t>(count * row_size)};
    return rows;
  }
  rows.logits = host_logits(first, count);
  if (builder_.sampled().includes(sequence)) {
    rows.tokens = {tokens_.host().rows(first, count).as<std::int32_t>(), size};
  }
  return rows;
}

}  // namespace caption::engine
