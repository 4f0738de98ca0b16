#include "engine/engine.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "engine/internal/draft_offers.h"
#include "engine/internal/drafted_engine.h"
#include "engine/internal/name_pages.h"
#include "engine/internal/page_tiers.h"
#include "engine/internal/sequence.h"
#include "engine/internal/step_counter.h"
#include "engine/internal/step_runner.h"
#include "engine/internal/token_chooser.h"
#include "engine/internal/validate.h"
#include "engine/self_draft.h"
#include "kernels/beam_candidates.h"
#include "kv/page_pool.h"
#include "sampling/draft_verifier.h"
#include "scheduler/scheduler.h"
#include "tensor/copy.h"

namespace caption::engine {
namespace {

scheduler::SchedulerOptions to_scheduler_options(const EngineOptions& options,
                                                 const model::DecoderSpec& spec) {
  return {.mode = options.batching,
          .prefill = options.chunked_prefill ? scheduler::PrefillMode::kChunked
                                             : scheduler::PrefillMode::kWhole,
          .max_num_seqs = options.max_num_seqs,
          .max_num_batched_tokens = options.max_num_batched_tokens,
          .window_tokens = spec.window_of_all_layers(),
          .max_drafts_per_step = step_limits(options).most_drafts()};
}

// The vision tokens of a prompt are its fixed context if their positions are consecutive.
std::optional<CompressedSequence> make_compressed(const CompressionOptions& options,
                                                  const model::DecoderSpec& spec, Device device,
                                                  const Request& request) {
  if (options.mode == CompressionMode::kNone) return std::nullopt;
  const auto& positions = request.vision_positions;
  const bool is_one_piece =
      !positions.empty() && positions.back() - positions.front() + 1 == std::ssize(positions);
  return CompressedSequence(options, spec, device, std::ssize(request.prompt_ids),
                            is_one_piece ? positions.front() : 0,
                            is_one_piece ? std::ssize(positions) : 0);
}

// The state of a request before its first step, without its compression.
std::unique_ptr<Sequence> make_sequence(RequestId id, Request request) {
  auto sequence = std::make_unique<Sequence>();
  sequence->id = id;
  sequence->num_prompt = std::ssize(request.prompt_ids);
  sequence->tokens = std::move(request.prompt_ids);
  sequence->tokens.reserve(sequence->tokens.size() +
                           static_cast<std::size_t>(request.sampling.max_new_tokens));
  sequence->set_positions(std::move(request.positions));
  sequence->vision_positions = std::move(request.vision_positions);
  for (SharedVision& shared : request.leading_vision) {
    sequence->vision.push_back(std::move(shared.tokens));
  }
  if (request.vision != nullptr) sequence->vision.push_back(std::move(request.vision));
  sequence->adapter = request.adapter;
  sequence->sampling = std::move(request.sampling);
  sequence->on_token = std::move(request.on_token);
  sequence->process_logits = std::move(request.process_logits);
  sequence->submitted_at_us = now_us();
  return sequence;
}

// Returns why the output ends after its last token, or nullopt if it continues. A repeating output
// that reaches the length limit counts as a loop.
std::optional<FinishReason> find_finish_reason(const Sequence& sequence, TokenVerdict verdict) {
  const auto& stop_ids = sequence.sampling.stop_ids;
  const bool is_stop_id =
      std::find(stop_ids.begin(), stop_ids.end(), sequence.tokens.back()) != stop_ids.end();
  if (is_stop_id || verdict == TokenVerdict::kStop) return FinishReason::kStop;
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
  State(model::Decoder& decoder, Stream& stream, const EngineOptions& options);

  void build_batch(const scheduler::StepPlan& plan);
  void note_preemptions(const scheduler::StepPlan& plan);
  // Runs the plan on the decoder. If that throws, no request has advanced.
  void compute(const scheduler::StepPlan& plan);
  void finish_prompts(const scheduler::StepPlan& plan);
  // Chooses the next tokens of all requests whose logits the step computed; returns the completions
  // of the requests that end.
  std::vector<Completion> advance_all(const scheduler::StepPlan& plan);
  // Chooses the next tokens of a request; returns the completion if they end it.
  std::optional<Completion> advance(Sequence& sequence, const RequestRows& rows);
  std::optional<Completion> advance_tokens(Sequence& sequence, const RequestRows& rows);
  std::optional<Completion> advance_beams(Sequence& sequence, const RequestRows& rows);
  Completion complete(Sequence& sequence, FinishReason reason);
  void forget_compression(Sequence& sequence);

  const EngineOptions options;
  kv::PagePool pool;
  StepRunner runner;
  PageTiers tiers;
  scheduler::Scheduler scheduler;
  TokenChooser chooser;
  Sequences sequences;
  std::int64_t num_submitted = 0;
  std::int64_t compression_bytes = 0;  // besides the pages, for finished prompts
  StepCounter counter;
  DraftOffers offers;
};

Engine::State::State(model::Decoder& decoder, Stream& stream, const EngineOptions& the_options)
    : options(the_options),
      pool(num_affordable_pages(decoder.spec(), options)),
      runner(decoder, stream, options, pool.num_pages()),
      tiers(options, stream, runner.memory()),
      scheduler(to_scheduler_options(options, decoder.spec()), pool,
                tiers.empty() ? nullptr : &tiers),
      chooser(stream, decoder.spec().vocab),
      counter(pool.num_pages(), runner.memory().page_bytes()),
      offers(options, decoder.spec().vocab) {
  if (options.self_draft == nullptr) return;
  options.self_draft->attach({runner, pool, chooser.sampler(), scheduler, sequences}, options);
}

void Engine::State::build_batch(const scheduler::StepPlan& plan) {
  std::int64_t max_pages = 0;
  for (const scheduler::PlannedSequence& planned : plan.sequences) {
    const kv::PageTable& pages = scheduler.pages_of(planned.id, planned.branch);
    max_pages = std::max(max_pages, std::ssize(pages.pages()));
  }
  runner.builder().begin(max_pages);
  for (const scheduler::PlannedSequence& planned : plan.sequences) {
    runner.builder().add(planned, *sequences.at(to_request_id(planned.id)),
                         scheduler.pages_of(planned.id, planned.branch));
  }
}

void Engine::State::compute(const scheduler::StepPlan& plan) {
  build_batch(plan);
  try {
    runner.run([this] { tiers.copy_ahead(pool); });
  } catch (...) {
    for (const scheduler::PlannedSequence& planned : plan.sequences) {
      Sequence& sequence = *sequences.at(to_request_id(planned.id));
      if (sequence.compressed.has_value()) sequence.compressed->undo_watch();
    }
    throw;
  }
}

// Compresses the prompts whose last token was computed in this step.
void Engine::State::finish_prompts(const scheduler::StepPlan& plan) {
  if (options.compression.mode == CompressionMode::kNone) return;
  for (const scheduler::PlannedSequence& planned : plan.sequences) {
    Sequence& sequence = *sequences.at(to_request_id(planned.id));
    if (planned.first_token + planned.num_tokens != sequence.num_prompt) continue;
    const std::span<const kv::PageId> pages = scheduler.pages_of(planned.id).pages();
    StagedTensor block_table(runner.stream().device(), DType::kI32, {std::ssize(pages)});
    std::transform(pages.begin(), pages.end(), block_table.host().as<std::int32_t>(),
                   [](kv::PageId page) { return static_cast<std::int32_t>(page); });
    block_table.upload(runner.stream(), std::ssize(pages));
    const std::int64_t num_slots =
        sequence.compressed->finish_prompt(runner.stream(), runner.pages(), block_table.device());
    if (num_slots < sequence.num_prompt) scheduler.shrink(planned.id, num_slots);
    compression_bytes += sequence.compressed->size_bytes();
  }
}

void Engine::State::note_preemptions(const scheduler::StepPlan& plan) {
  counter.add_preemptions(std::ssize(plan.preempted));
  for (const scheduler::SequenceId id : plan.preempted) {
    Sequence& sequence = *sequences.at(to_request_id(id));
    ++sequence.num_preemptions;
    sequence.beams.reset();  // beams start again after the prompt
    forget_compression(sequence);
  }
}

// The rows of logits are in the order of the plan; the branches of a request are adjacent.
std::vector<Completion> Engine::State::advance_all(const scheduler::StepPlan& plan) {
  std::vector<Completion> completions;
  std::int64_t row = 0;
  for (auto planned = plan.sequences.begin(); planned != plan.sequences.end();) {
    const auto next = std::find_if(planned, plan.sequences.end(),
                                   [&](const auto& other) { return other.id != planned->id; });
    const std::int64_t num_rows = std::accumulate(
        planned, next, std::int64_t{0},
        [](std::int64_t sum, const auto& branch) { return sum + branch.num_logits(); });
    if (num_rows > 0) {
      Sequence& sequence = *sequences.at(to_request_id(planned->id));
      std::optional<Completion> completion =
          advance(sequence, runner.rows(sequence, row, num_rows));
      if (completion.has_value()) completions.push_back(std::move(*completion));
    }
    row += num_rows;
    planned = next;
  }
  return completions;
}

std::optional<Completion> Engine::State::advance(Sequence& sequence, const RequestRows& rows) {
  try {
    return sequence.has_beams() ? advance_beams(sequence, rows) : advance_tokens(sequence, rows);
  } catch (const Error& error) {
    Completion completion = complete(sequence, FinishReason::kFailed);
    completion.error = error;
    return completion;
  }
}

// Chooses tokens while the drafts are accepted: the first row follows the last known token, each
// further row a draft.
std::optional<Completion> Engine::State::advance_tokens(Sequence& sequence,
                                                        const RequestRows& rows) {
  const std::int64_t num_drafts = rows.count - 1;
  sampling::DraftVerifier verifier(
      std::span(sequence.drafts).first(static_cast<std::size_t>(num_drafts)));
  const auto observe = [&](bool was_refused) {
    if (num_drafts == 0) return;
    options.draft_source->observe(static_cast<std::int64_t>(sequence.id), num_drafts,
                                  verifier.row(), was_refused);
  };
  for (;;) {
    const std::int64_t row = verifier.row();
    const std::int32_t token = chooser.choose(sequence, rows, row);
    const TokenVerdict verdict =
        sequence.on_token ? sequence.on_token(token) : TokenVerdict::kContinue;
    sequence.loop.observe(sequence.output());
    if (row > 0) counter.add_accepted(sequence);
    const bool is_accepted = verifier.accept(token);
    const std::optional<FinishReason> reason = find_finish_reason(sequence, verdict);
    if (reason.has_value()) {
      observe(!is_accepted);
      return complete(sequence, *reason);
    }
    if (is_accepted) continue;
    observe(true);
    scheduler.append_tokens(to_sequence_id(sequence.id), row + 1);
    return std::nullopt;
  }
}

std::optional<Completion> Engine::State::advance_beams(Sequence& sequence,
                                                       const RequestRows& rows) {
  const std::size_t row_size = rows.candidates.size() / static_cast<std::size_t>(rows.count);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    kernels::check_candidates(
        rows.candidates.subspan(static_cast<std::size_t>(row) * row_size, row_size),
        runner.spec().vocab);
  }
  if (!sequence.beams.has_value()) {
    sequence.beams.emplace(sequence.sampling, sequence.tokens);
    if (sequence.first_token_us == 0) {
      sequence.first_token_us = now_us() - sequence.submitted_at_us;
    }
  }
  const sampling::BeamSearch::Step next =
      sequence.beams->advance(rows.candidates, static_cast<std::int64_t>(row_size));
  if (!sequence.beams->is_finished()) {
    scheduler.fork(to_sequence_id(sequence.id), next.parents);
    return std::nullopt;
  }
  const sampling::BeamSearch::Best best = sequence.beams->best();
  sequence.tokens.insert(sequence.tokens.end(), best.output_ids.begin(), best.output_ids.end());
  for (std::size_t n = 1; n <= best.output_ids.size(); ++n) {
    sequence.loop.observe(best.output_ids.first(n));
  }
  const FinishReason unstopped =
      sequence.loop.period() != 0 ? FinishReason::kLoop : FinishReason::kLength;
  Completion completion = complete(sequence, best.is_stopped ? FinishReason::kStop : unstopped);
  completion.beam_score = best.score;
  return completion;
}

Completion Engine::State::complete(Sequence& sequence, FinishReason reason) {
  const scheduler::SequenceId id = to_sequence_id(sequence.id);
  Completion completion{.id = sequence.id,
                        .output_ids = {sequence.output().begin(), sequence.output().end()},
                        .finish_reason = reason,
                        .prompt_tokens = sequence.num_prompt,
                        .vision_tokens = std::ssize(sequence.vision_positions),
                        .first_token_us = sequence.first_token_us,
                        .total_us = now_us() - sequence.submitted_at_us,
                        .num_preemptions = sequence.num_preemptions,
                        .cached_tokens = scheduler.cached_tokens_of(id),
                        .logprobs = std::move(sequence.logprobs)};
  forget_compression(sequence);
  offers.end(sequence,
             reason == FinishReason::kFailed ? std::span<const std::int32_t>{} : sequence.output());
  scheduler.finish(id);
  sequences.erase(sequence.id);
  return completion;
}

void Engine::State::forget_compression(Sequence& sequence) {
  if (!sequence.compressed.has_value()) return;
  if (sequence.compressed->is_finished()) compression_bytes -= sequence.compressed->size_bytes();
  sequence.compressed->reset();
}

Engine::Engine(model::Decoder& decoder, Stream& stream, const EngineOptions& options) {
  const std::int64_t smaller = std::min(options.max_num_seqs, options.max_num_batched_tokens);
  if (smaller < 1) {
    throw Error(ErrorCode::kUsage,
                "engine: max_num_seqs and max_num_batched_tokens must be at least 1, found " +
                    std::to_string(smaller));
  }
  const std::int32_t fewer = std::min(options.max_drafts, options.max_copied_tokens);
  if (fewer < 0 || (step_limits(options).most_drafts() > 0 && options.draft_source == nullptr)) {
    throw Error(ErrorCode::kUsage, "engine: max_drafts is " + std::to_string(options.max_drafts) +
                                       " and max_copied_tokens " +
                                       std::to_string(options.max_copied_tokens) +
                                       "; drafts need a source");
  }
  engine::validate(options.compression, decoder.spec(), stream.device());
  state_ = std::make_unique<State>(decoder, stream, options);
}

Engine::~Engine() = default;

RequestId Engine::submit(Request request) {
  State& state = *state_;
  const model::DecoderSpec& decoder = state.runner.spec();
  const Device device = state.runner.stream().device();
  validate(request, decoder, device);
  validate_adapter(request, state.runner.num_adapters());
  const RequestId id{state_->num_submitted};
  scheduler::SequenceSpec spec{
      .id = to_sequence_id(id),
      .num_prompt_tokens = std::ssize(request.prompt_ids),
      .max_new_tokens = request.sampling.max_new_tokens,
      .priority = request.priority,
      .num_branches = std::max(1, request.sampling.num_beams),
      .prompt_end = state.options.compression.mode == CompressionMode::kNone
                        ? scheduler::PromptEnd::kPlain
                        : scheduler::PromptEnd::kOwnStep};
  // topk-merge changes the content of pages, so that no other prompt can use them.
  const bool changes_pages = state.options.compression.mode == CompressionMode::kTopkMerge;
  if (state.options.prefix_cache == PrefixCache::kOn && !changes_pages) {
    name_pages(state.runner.stream(), request.page_identity.value_or(state.options.page_identity),
               request, spec);
  }
  std::optional<CompressedSequence> compressed =
      make_compressed(state.options.compression, decoder, device, request);
  std::unique_ptr<Sequence> sequence = make_sequence(id, std::move(request));
  sequence->compressed = std::move(compressed);
  state.runner.reserve(*sequence);
  state.scheduler.submit(std::move(spec));
  state.sequences.emplace(id, std::move(sequence));
  ++state.num_submitted;
  return id;
}

std::vector<Completion> Engine::step() {
  if (idle()) return {};
  const Stopwatch stopwatch;
  State& state = *state_;
  state.offers.offer(state.sequences, state.scheduler);
  const scheduler::StepPlan& plan = state.scheduler.plan();
  state.note_preemptions(plan);
  state.tiers.order_before_step();
  for (const kv::PageCopy& copy : plan.copies) state.runner.copy_page(copy);
  state.compute(plan);
  state.scheduler.commit();
  state.finish_prompts(plan);
  state.counter.add_step(plan, state.scheduler, state.pool, state.compression_bytes);
  for (const scheduler::PlannedSequence& planned : plan.sequences) {
    state.counter.add_tokens(planned, *state.sequences.at(to_request_id(planned.id)));
  }

  std::vector<Completion> completions = state.advance_all(plan);
  const std::int64_t us = stopwatch.elapsed_us();
  state.counter.add_busy_us(us);
  state.offers.observe_step(plan.num_tokens, us);
  return completions;
}

bool Engine::cancel(RequestId id) {
  const auto found = state_->sequences.find(id);
  if (found == state_->sequences.end()) return false;
  state_->forget_compression(*found->second);
  state_->offers.end(*found->second, {});
  state_->sequences.erase(found);
  state_->scheduler.finish(to_sequence_id(id));
  return true;
}

bool Engine::idle() const { return state_->sequences.empty(); }

std::int64_t Engine::num_unfinished() const { return std::ssize(state_->sequences); }

EngineStats Engine::stats() const {
  EngineStats stats = state_->counter.stats(state_->pool, state_->scheduler.prefix_stats());
  stats.graph_steps = state_->runner.num_graph_steps();
  stats.host_stored_pages = state_->tiers.num_stored_in_memory();
  return stats;
}

}  // namespace caption::engine
