#include "engine/engine.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "engine/internal/batch_builder.h"
#include "engine/internal/page_memory.h"
#include "engine/internal/sequence.h"
#include "kv/page_pool.h"
#include "sampling/sampler.h"
#include "scheduler/scheduler.h"

namespace caption::engine {
namespace {

scheduler::SequenceId to_sequence_id(RequestId id) {
  return scheduler::SequenceId{static_cast<std::int64_t>(id)};
}

RequestId to_request_id(scheduler::SequenceId id) {
  return RequestId{static_cast<std::int64_t>(id)};
}

scheduler::SchedulerOptions to_scheduler_options(const EngineOptions& options) {
  return {.mode = options.batching == BatchMode::kStatic ? scheduler::Mode::kStatic
                                                         : scheduler::Mode::kContinuous,
          .prefill = options.chunked_prefill ? scheduler::PrefillMode::kChunked
                                             : scheduler::PrefillMode::kWhole,
          .max_num_seqs = options.max_num_seqs,
          .max_num_batched_tokens = options.max_num_batched_tokens};
}

// What holds of every request for this model; what depends on the pages is the scheduler's.
void validate(const Request& request, const model::DecoderSpec& spec) {
  sampling::validate(request.sampling, spec.vocab);
  const auto num_prompt = std::ssize(request.prompt_ids);
  CAPTION_CHECK(num_prompt >= 1, "request: the prompt is empty");

  const auto num_vision = std::ssize(request.vision_positions);
  const bool vision_fits =
      num_vision == 0 || (request.vision != nullptr && request.vision->dtype() == DType::kF32 &&
                          request.vision->shape() == Shape{num_vision, spec.hidden});
  const Shape found = request.vision == nullptr ? Shape{0} : request.vision->shape();
  CAPTION_CHECK(vision_fits, "request: vision tokens of shape " + found.to_string() + " for " +
                                 std::to_string(num_vision) + " positions of width " +
                                 std::to_string(spec.hidden));
  auto next_vision = request.vision_positions.begin();
  for (std::int64_t position = 0; position < num_prompt; ++position) {
    if (next_vision != request.vision_positions.end() && *next_vision == position) {
      ++next_vision;
      continue;
    }
    const std::int32_t id = request.prompt_ids[static_cast<std::size_t>(position)];
    CAPTION_CHECK(id >= 0 && id < spec.vocab, "request: prompt id " + std::to_string(id) +
                                                  " is not in the vocabulary of " +
                                                  std::to_string(spec.vocab));
  }
  CAPTION_CHECK(next_vision == request.vision_positions.end(),
                "request: vision positions must ascend within the prompt");

  // The last new token is chosen, not computed: it needs no position.
  const std::int64_t num_positions = num_prompt + request.sampling.max_new_tokens - 1;
  if (num_positions > spec.max_positions) {
    throw Error(ErrorCode::kTooLong,
                "request: " + std::to_string(num_prompt) + " prompt tokens and " +
                    std::to_string(request.sampling.max_new_tokens) + " new tokens need " +
                    std::to_string(num_positions) + " positions; the model has " +
                    std::to_string(spec.max_positions) + "; use fewer frames or new tokens");
  }
}

// Why the output ends after its last token, if it does. A loop that fills the limit is a loop.
std::optional<FinishReason> find_finish_reason(const Sequence& sequence) {
  const auto& stop_ids = sequence.sampling.stop_ids;
  if (std::find(stop_ids.begin(), stop_ids.end(), sequence.tokens.back()) != stop_ids.end()) {
    return FinishReason::kStop;
  }
  if (sequence.loop.period() != 0) return FinishReason::kLoop;
  if (std::ssize(sequence.output()) == sequence.sampling.max_new_tokens) {
    return FinishReason::kLength;
  }
  return std::nullopt;
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kLoop: return "loop";
    case FinishReason::kFailed: return "failed";
  }
  return "failed";
}

struct Engine::State {
  State(model::Decoder& the_decoder, Stream& the_stream, const EngineOptions& options);

  std::int64_t max_step_tokens(const EngineOptions& options) const;
  const model::StepBatch& build_batch(const scheduler::StepPlan& plan);
  void count_preemptions(const scheduler::StepPlan& plan);
  void count_tokens(const scheduler::StepPlan& plan);
  // Samples from a row of logits; gives the completion when that ends the request.
  std::optional<Completion> advance(Sequence& sequence, std::span<float> row);
  Completion complete(Sequence& sequence, FinishReason reason);

  model::Decoder& decoder;
  Stream& stream;
  kv::PagePool pool;
  PageMemory memory;
  scheduler::Scheduler scheduler;
  sampling::Sampler sampler;
  BatchBuilder builder;
  Tensor logits;  // [max_num_seqs, vocab]
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences;
  std::int64_t num_submitted = 0;
  EngineStats stats;
  std::int64_t num_step_sequences = 0;  // summed over steps
};

Engine::State::State(model::Decoder& the_decoder, Stream& the_stream, const EngineOptions& options)
    : decoder(the_decoder),
      stream(the_stream),
      pool(num_affordable_pages(decoder.spec(), options)),
      memory(decoder.spec(), options.kv_dtype, pool.num_pages()),
      scheduler(to_scheduler_options(options), pool),
      sampler(decoder.spec().vocab),
      builder(max_step_tokens(options), options.max_num_seqs,
              std::min(pool.num_pages(), kv::pages_for_tokens(decoder.spec().max_positions))),
      logits(DType::kF32, Shape{options.max_num_seqs, decoder.spec().vocab}) {
  CAPTION_CHECK(stream.device() == Device::kCpu, "engine: sampling reads the logits on the CPU");
  decoder.reserve(max_step_tokens(options), options.max_num_seqs);
}

// But for whole prompts beyond the budget, which are not worth holding memory for.
std::int64_t Engine::State::max_step_tokens(const EngineOptions& options) const {
  return std::min<std::int64_t>(options.max_num_batched_tokens, pool.num_pages() * kv::kPageTokens);
}

const model::StepBatch& Engine::State::build_batch(const scheduler::StepPlan& plan) {
  std::int64_t max_pages = 0;
  for (const scheduler::PlannedSequence& planned : plan.sequences) {
    max_pages = std::max(max_pages, std::ssize(scheduler.pages_of(planned.id).pages()));
  }
  builder.begin(max_pages);
  for (const scheduler::PlannedSequence& planned : plan.sequences) {
    builder.add(planned, *sequences.at(to_request_id(planned.id)), scheduler.pages_of(planned.id));
  }
  return builder.finish();
}

void Engine::State::count_preemptions(const scheduler::StepPlan& plan) {
  stats.preemptions += std::ssize(plan.preempted);
  for (const scheduler::SequenceId id : plan.preempted) {
    ++sequences.at(to_request_id(id))->num_preemptions;
  }
}

void Engine::State::count_tokens(const scheduler::StepPlan& plan) {
  ++stats.steps;
  num_step_sequences += std::ssize(plan.sequences);
  for (const scheduler::PlannedSequence& planned : plan.sequences) {
    Sequence& sequence = *sequences.at(to_request_id(planned.id));
    const std::int64_t end = planned.first_token + planned.num_tokens;
    const std::int64_t num_new = std::max<std::int64_t>(end - sequence.num_ever_computed, 0);
    stats.recomputed_tokens += planned.num_tokens - num_new;
    sequence.num_ever_computed += num_new;
    // The one token chosen last is a decode; all else is a prompt, or recomputed like one.
    const bool is_decode = planned.num_tokens == 1 && planned.is_last_known &&
                           planned.first_token >= sequence.num_prompt && num_new == 1;
    (is_decode ? stats.decode_tokens : stats.prefill_tokens) += planned.num_tokens;
  }
}

std::optional<Completion> Engine::State::advance(Sequence& sequence, std::span<float> row) {
  try {
    sequence.tokens.push_back(
        sampler.sample(sequence.sampling, {sequence.tokens, sequence.num_prompt}, row));
  } catch (const Error& error) {
    Completion completion = complete(sequence, FinishReason::kFailed);
    completion.error = error;
    return completion;
  }
  if (std::ssize(sequence.output()) == 1) {
    sequence.first_token_us = now_us() - sequence.submitted_at_us;
  }
  sequence.loop.observe(sequence.output());
  const std::optional<FinishReason> reason = find_finish_reason(sequence);
  if (reason.has_value()) return complete(sequence, *reason);
  scheduler.append_token(to_sequence_id(sequence.id));
  return std::nullopt;
}

Completion Engine::State::complete(Sequence& sequence, FinishReason reason) {
  Completion completion{.id = sequence.id,
                        .output_ids = {sequence.output().begin(), sequence.output().end()},
                        .finish_reason = reason,
                        .prompt_tokens = sequence.num_prompt,
                        .vision_tokens = std::ssize(sequence.vision_positions),
                        .first_token_us = sequence.first_token_us,
                        .total_us = now_us() - sequence.submitted_at_us,
                        .num_preemptions = sequence.num_preemptions};
  scheduler.finish(to_sequence_id(sequence.id));
  sequences.erase(sequence.id);
  return completion;
}

Engine::Engine(model::Decoder& decoder, Stream& stream, const EngineOptions& options) {
  const std::int64_t smaller = std::min(options.max_num_seqs, options.max_num_batched_tokens);
  if (smaller < 1) {
    throw Error(ErrorCode::kUsage,
                "engine: max_num_seqs and max_num_batched_tokens must be at least 1, found " +
                    std::to_string(smaller));
  }
  state_ = std::make_unique<State>(decoder, stream, options);
}

Engine::~Engine() = default;

RequestId Engine::submit(Request request) {
  validate(request, state_->decoder.spec());
  const RequestId id{state_->num_submitted};
  auto sequence = std::make_unique<Sequence>();
  sequence->id = id;
  sequence->num_prompt = std::ssize(request.prompt_ids);
  sequence->tokens = std::move(request.prompt_ids);
  sequence->tokens.reserve(sequence->tokens.size() +
                           static_cast<std::size_t>(request.sampling.max_new_tokens));
  sequence->vision_positions = std::move(request.vision_positions);
  sequence->vision = std::move(request.vision);
  sequence->sampling = std::move(request.sampling);
  sequence->submitted_at_us = now_us();
  state_->scheduler.submit({.id = to_sequence_id(id),
                            .num_prompt_tokens = sequence->num_prompt,
                            .max_new_tokens = sequence->sampling.max_new_tokens,
                            .priority = request.priority});
  state_->sequences.emplace(id, std::move(sequence));
  ++state_->num_submitted;
  return id;
}

std::vector<Completion> Engine::step() {
  if (idle()) return {};
  const Stopwatch stopwatch;
  State& state = *state_;
  const scheduler::StepPlan& plan = state.scheduler.plan();
  state.count_preemptions(plan);
  const model::StepBatch& batch = state.build_batch(plan);
  const View logits = state.logits.view().rows(0, std::ssize(batch.logit_rows));
  state.decoder.forward(state.stream, batch, state.memory.views(), logits);
  state.scheduler.commit();
  state.count_tokens(plan);

  std::vector<Completion> completions;
  const auto vocab = static_cast<std::size_t>(state.decoder.spec().vocab);
  float* row = logits.as<float>();
  for (const scheduler::PlannedSequence& planned : plan.sequences) {
    if (!planned.is_last_known) continue;
    Sequence& sequence = *state.sequences.at(to_request_id(planned.id));
    std::optional<Completion> completion = state.advance(sequence, {row, vocab});
    if (completion.has_value()) completions.push_back(std::move(*completion));
    row += vocab;
  }
  state.stats.busy_us += stopwatch.elapsed_us();
  return completions;
}

bool Engine::cancel(RequestId id) {
  if (state_->sequences.erase(id) == 0) return false;
  state_->scheduler.finish(to_sequence_id(id));
  return true;
}

bool Engine::idle() const { return state_->sequences.empty(); }

std::int64_t Engine::num_unfinished() const { return std::ssize(state_->sequences); }

std::int64_t Engine::num_waiting() const { return state_->scheduler.num_tokens_to_come(); }

EngineStats Engine::stats() const {
  EngineStats stats = state_->stats;
  if (stats.steps > 0) {
    stats.mean_batch =
        static_cast<double>(state_->num_step_sequences) / static_cast<double>(stats.steps);
  }
  stats.pages_total = state_->pool.num_pages();
  stats.pages_peak = state_->pool.peak_used();
  return stats;
}

}  // namespace caption::engine
