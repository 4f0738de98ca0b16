#include "engine/engine.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/sha256.h"
#include "engine/internal/batch_builder.h"
#include "engine/internal/disk_pages.h"
#include "engine/internal/page_bytes.h"
#include "engine/internal/page_memory.h"
#include "engine/internal/sequence.h"
#include "engine/internal/validate.h"
#include "kv/page_pool.h"
#include "kv/prefix_hash.h"
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
  return {.mode = options.batching,
          .prefill = options.chunked_prefill ? scheduler::PrefillMode::kChunked
                                             : scheduler::PrefillMode::kWhole,
          .max_num_seqs = options.max_num_seqs,
          .max_num_batched_tokens = options.max_num_batched_tokens};
}

// The vision tokens of a prompt are its fixed context if their positions are consecutive.
std::optional<CompressedSequence> make_compressed(const CompressionOptions& options,
                                                  const model::DecoderSpec& spec,
                                                  const Request& request) {
  if (options.mode == CompressionMode::kNone) return std::nullopt;
  const auto& positions = request.vision_positions;
  const bool is_one_piece =
      !positions.empty() && positions.back() - positions.front() + 1 == std::ssize(positions);
  return CompressedSequence(options, spec, std::ssize(request.prompt_ids),
                            is_one_piece ? positions.front() : 0,
                            is_one_piece ? std::ssize(positions) : 0);
}

Hash128 content_of(const Tensor& vision) {
  return sha256_of(
             std::span(reinterpret_cast<const std::byte*>(vision.as<float>()), vision.size_bytes()))
      .short_key();
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
  State(model::Decoder& the_decoder, Stream& the_stream, const EngineOptions& options);

  std::int64_t max_step_tokens(const EngineOptions& options) const;
  void name_pages(const Request& request, scheduler::SequenceSpec& spec) const;
  const model::StepBatch& build_batch(const scheduler::StepPlan& plan);
  void note_preemptions(const scheduler::StepPlan& plan);
  // Runs the plan on the decoder. If that throws, no request has advanced.
  View compute(const scheduler::StepPlan& plan);
  void finish_prompts(const scheduler::StepPlan& plan);
  void count_step(const scheduler::StepPlan& plan);
  void count_tokens(const scheduler::PlannedSequence& planned);
  // Chooses the next tokens from a request's rows of logits; returns the completion if they end it.
  std::optional<Completion> advance(Sequence& sequence, std::span<float> rows);
  std::optional<Completion> advance_token(Sequence& sequence, std::span<float> row);
  std::optional<Completion> advance_beams(Sequence& sequence, std::span<float> rows);
  Completion complete(Sequence& sequence, FinishReason reason);
  void forget_compression(Sequence& sequence);

  model::Decoder& decoder;
  Stream& stream;
  const PrefixCache prefix_cache;
  const CompressionOptions compression;
  const Hash128 root;  // root of the hashes of pages
  kv::PagePool pool;
  PageMemory memory;
  std::unique_ptr<DiskPages> disk;  // null without a disk tier
  scheduler::Scheduler scheduler;
  sampling::Sampler sampler;
  BatchBuilder builder;
  Tensor logits;                  // [max_num_seqs, vocab]
  std::vector<float> raw_logits;  // [vocab], for requests with log-probabilities
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences;
  std::int64_t num_submitted = 0;
  std::int64_t compression_bytes = 0;  // besides the pages, for finished prompts
  EngineStats stats;                   // its mean_* members hold sums; stats() divides them
};

namespace {

std::unique_ptr<DiskPages> open_disk(const EngineOptions& options, const model::KvPages& pages) {
  if (options.disk.folder.empty()) return nullptr;
  if (options.prefix_cache == PrefixCache::kOff) {
    throw Error(ErrorCode::kUsage, "engine: pages on disk need the prefix cache; turn it on");
  }
  return std::make_unique<DiskPages>(options.disk, pages);
}

}  // namespace

Engine::State::State(model::Decoder& the_decoder, Stream& the_stream, const EngineOptions& options)
    : decoder(the_decoder),
      stream(the_stream),
      prefix_cache(options.prefix_cache),
      compression(options.compression),
      root(options.page_identity),
      pool(num_affordable_pages(decoder.spec(), options)),
      memory(decoder.spec(), options.kv_dtype, pool.num_pages()),
      disk(open_disk(options, memory.views())),
      scheduler(to_scheduler_options(options), pool, disk.get()),
      sampler(decoder.spec().vocab),
      builder(max_step_tokens(options), options.max_num_seqs,
              std::min(pool.num_pages(), kv::pages_for_tokens(decoder.spec().max_positions))),
      logits(DType::kF32, Shape{options.max_num_seqs, decoder.spec().vocab}),
      raw_logits(static_cast<std::size_t>(decoder.spec().vocab)) {
  CAPTION_CHECK(stream.device() == Device::kCpu, "engine: sampling reads the logits on the CPU");
  decoder.reserve(max_step_tokens(options), options.max_num_seqs);
  stats.pages_total = pool.num_pages();
  stats.page_bytes = page_size_bytes(memory.views());
}

// Scratch is reserved for the token budget; a longer whole prompt grows it when it runs.
std::int64_t Engine::State::max_step_tokens(const EngineOptions& options) const {
  return std::min<std::int64_t>(options.max_num_batched_tokens, pool.num_pages() * kv::kPageTokens);
}

// Computes page keys. Also marks where the vision tokens end: prompts on the same video differ
// after that.
void Engine::State::name_pages(const Request& request, scheduler::SequenceSpec& spec) const {
  // topk-merge changes the content of pages, so that no other prompt can use them.
  const bool changes_pages = compression.mode == CompressionMode::kTopkMerge;
  if (prefix_cache == PrefixCache::kOff || changes_pages) return;
  kv::PromptContent prompt{.ids = request.prompt_ids,
                           .vision_positions = request.vision_positions,
                           .vision_content = {}};
  if (!request.vision_positions.empty()) {
    prompt.vision_content =
        request.vision_content.has_value() ? *request.vision_content : content_of(*request.vision);
  }
  spec.prompt_pages = kv::hash_prompt_pages(root, prompt);
  if (request.vision_positions.empty()) return;
  const std::int64_t end = request.vision_positions.back() + 1;
  if (end % kv::kPageTokens == 0) return;
  spec.prompt_part = {.content = kv::hash_prompt_part(root, prompt, spec.prompt_pages, end),
                      .num_tokens = end};
}

const model::StepBatch& Engine::State::build_batch(const scheduler::StepPlan& plan) {
  std::int64_t max_pages = 0;
  for (const scheduler::PlannedSequence& planned : plan.sequences) {
    const kv::PageTable& pages = scheduler.pages_of(planned.id, planned.branch);
    max_pages = std::max(max_pages, std::ssize(pages.pages()));
  }
  builder.begin(max_pages);
  for (const scheduler::PlannedSequence& planned : plan.sequences) {
    builder.add(planned, *sequences.at(to_request_id(planned.id)),
                scheduler.pages_of(planned.id, planned.branch));
  }
  return builder.finish();
}

View Engine::State::compute(const scheduler::StepPlan& plan) {
  const model::StepBatch& batch = build_batch(plan);
  const View rows = logits.view().rows(0, std::ssize(batch.logit_rows));
  try {
    decoder.forward(stream, batch, memory.views(), rows);
  } catch (...) {
    for (const scheduler::PlannedSequence& planned : plan.sequences) {
      Sequence& sequence = *sequences.at(to_request_id(planned.id));
      if (sequence.compressed.has_value()) sequence.compressed->undo_watch();
    }
    throw;
  }
  return rows;
}

// Compresses the prompts whose last token was computed in this step.
void Engine::State::finish_prompts(const scheduler::StepPlan& plan) {
  if (compression.mode == CompressionMode::kNone) return;
  for (const scheduler::PlannedSequence& planned : plan.sequences) {
    Sequence& sequence = *sequences.at(to_request_id(planned.id));
    if (planned.first_token + planned.num_tokens != sequence.num_prompt) continue;
    const std::span<const kv::PageId> pages = scheduler.pages_of(planned.id).pages();
    std::vector<std::int32_t> block_table;
    for (const kv::PageId page : pages) block_table.push_back(static_cast<std::int32_t>(page));
    const std::int64_t num_slots =
        sequence.compressed->finish_prompt(stream, memory.views(), block_table);
    if (num_slots < sequence.num_prompt) scheduler.shrink(planned.id, num_slots);
    compression_bytes += sequence.compressed->size_bytes();
  }
}

void Engine::State::note_preemptions(const scheduler::StepPlan& plan) {
  stats.preemptions += std::ssize(plan.preempted);
  for (const scheduler::SequenceId id : plan.preempted) {
    Sequence& sequence = *sequences.at(to_request_id(id));
    ++sequence.num_preemptions;
    sequence.beams.reset();  // beams start again after the prompt
    forget_compression(sequence);
  }
}

void Engine::State::count_step(const scheduler::StepPlan& plan) {
  ++stats.steps;
  stats.mean_batch += static_cast<double>(plan.sequences.size());
  const auto num_used = static_cast<double>(pool.num_used());
  stats.mean_pages_used += num_used;
  stats.mean_compression_bytes += static_cast<double>(compression_bytes);
  stats.mean_page_waste += static_cast<double>(scheduler.num_empty_slots()) /
                           (num_used * static_cast<double>(kv::kPageTokens));
  for (const scheduler::PlannedSequence& planned : plan.sequences) count_tokens(planned);
}

void Engine::State::count_tokens(const scheduler::PlannedSequence& planned) {
  if (planned.branch != 0) {  // branches other than the first only decode
    stats.decode_tokens += planned.num_tokens;
    return;
  }
  Sequence& sequence = *sequences.at(to_request_id(planned.id));
  const std::int64_t end = planned.first_token + planned.num_tokens;
  const std::int64_t first_new = std::max(sequence.num_ever_computed, planned.first_token);
  const std::int64_t num_new = std::max<std::int64_t>(end - first_new, 0);
  stats.recomputed_tokens += planned.num_tokens - num_new;
  sequence.num_ever_computed = std::max(sequence.num_ever_computed, end);
  // Computing only the token chosen last counts as decoding; anything else is prefill, also the
  // recomputation of output tokens.
  const bool is_decode = planned.num_tokens == 1 && planned.is_last_known &&
                         planned.first_token >= sequence.num_prompt && num_new == 1;
  (is_decode ? stats.decode_tokens : stats.prefill_tokens) += planned.num_tokens;
}

std::optional<Completion> Engine::State::advance(Sequence& sequence, std::span<float> rows) {
  try {
    return sequence.sampling.num_beams > 1 ? advance_beams(sequence, rows)
                                           : advance_token(sequence, rows);
  } catch (const Error& error) {
    Completion completion = complete(sequence, FinishReason::kFailed);
    completion.error = error;
    return completion;
  }
}

std::optional<Completion> Engine::State::advance_token(Sequence& sequence, std::span<float> row) {
  const bool wants_logprobs = sequence.sampling.num_logprobs >= 0;
  if (wants_logprobs) std::copy(row.begin(), row.end(), raw_logits.begin());
  const std::int32_t token = [&] {
    const ProfileScope scope(stream.profile(), "sampling");
    return sampler.sample(sequence.sampling, {sequence.tokens, sequence.num_prompt}, row);
  }();
  sequence.tokens.push_back(token);
  if (wants_logprobs) {
    sequence.logprobs.push_back(
        sampling::find_logprobs(raw_logits, token, sequence.sampling.num_logprobs));
  }
  if (sequence.output().size() == 1) {
    sequence.first_token_us = now_us() - sequence.submitted_at_us;
  }
  const TokenVerdict verdict =
      sequence.on_token ? sequence.on_token(token) : TokenVerdict::kContinue;
  sequence.loop.observe(sequence.output());
  const std::optional<FinishReason> reason = find_finish_reason(sequence, verdict);
  if (reason.has_value()) return complete(sequence, *reason);
  scheduler.append_token(to_sequence_id(sequence.id));
  return std::nullopt;
}

std::optional<Completion> Engine::State::advance_beams(Sequence& sequence, std::span<float> rows) {
  if (!sequence.beams.has_value()) {
    sequence.beams.emplace(sequence.sampling, sequence.tokens, decoder.spec().vocab);
    if (sequence.first_token_us == 0) {
      sequence.first_token_us = now_us() - sequence.submitted_at_us;
    }
  }
  const sampling::BeamSearch::Step next = [&] {
    const ProfileScope scope(stream.profile(), "sampling");
    return sequence.beams->advance(sampler, rows);
  }();
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
  engine::validate(options.compression);
  state_ = std::make_unique<State>(decoder, stream, options);
}

Engine::~Engine() = default;

RequestId Engine::submit(Request request) {
  validate(request, state_->decoder.spec());
  const RequestId id{state_->num_submitted};
  scheduler::SequenceSpec spec{.id = to_sequence_id(id),
                               .num_prompt_tokens = std::ssize(request.prompt_ids),
                               .max_new_tokens = request.sampling.max_new_tokens,
                               .priority = request.priority,
                               .num_branches = std::max(1, request.sampling.num_beams),
                               .prompt_end = state_->compression.mode == CompressionMode::kNone
                                                 ? scheduler::PromptEnd::kPlain
                                                 : scheduler::PromptEnd::kOwnStep};
  state_->name_pages(request, spec);
  auto sequence = std::make_unique<Sequence>();
  sequence->compressed = make_compressed(state_->compression, state_->decoder.spec(), request);
  sequence->id = id;
  sequence->num_prompt = std::ssize(request.prompt_ids);
  sequence->tokens = std::move(request.prompt_ids);
  sequence->tokens.reserve(sequence->tokens.size() +
                           static_cast<std::size_t>(request.sampling.max_new_tokens));
  sequence->vision_positions = std::move(request.vision_positions);
  sequence->vision = std::move(request.vision);
  sequence->sampling = std::move(request.sampling);
  sequence->on_token = std::move(request.on_token);
  sequence->submitted_at_us = now_us();
  state_->scheduler.submit(std::move(spec));
  state_->sequences.emplace(id, std::move(sequence));
  ++state_->num_submitted;
  return id;
}

std::vector<Completion> Engine::step() {
  if (idle()) return {};
  const Stopwatch stopwatch;
  State& state = *state_;
  const scheduler::StepPlan& plan = state.scheduler.plan();
  for (const kv::PageCopy& copy : plan.copies) copy_page(state.memory.views(), copy);
  state.note_preemptions(plan);
  const View logits = state.compute(plan);
  state.scheduler.commit();
  state.finish_prompts(plan);
  state.count_step(plan);

  std::vector<Completion> completions;
  const std::int64_t vocab = state.decoder.spec().vocab;
  float* row = logits.as<float>();
  for (auto planned = plan.sequences.begin(); planned != plan.sequences.end();) {
    const auto next = std::find_if(planned, plan.sequences.end(),
                                   [&](const auto& other) { return other.id != planned->id; });
    const std::int64_t num_rows = planned->is_last_known ? next - planned : 0;
    if (num_rows > 0) {
      Sequence& sequence = *state.sequences.at(to_request_id(planned->id));
      const std::span<float> rows(row, static_cast<std::size_t>(num_rows * vocab));
      std::optional<Completion> completion = state.advance(sequence, rows);
      if (completion.has_value()) completions.push_back(std::move(*completion));
    }
    row += num_rows * vocab;
    planned = next;
  }
  state.stats.busy_us += stopwatch.elapsed_us();
  return completions;
}

bool Engine::cancel(RequestId id) {
  const auto found = state_->sequences.find(id);
  if (found == state_->sequences.end()) return false;
  state_->forget_compression(*found->second);
  state_->sequences.erase(found);
  state_->scheduler.finish(to_sequence_id(id));
  return true;
}

bool Engine::idle() const { return state_->sequences.empty(); }

std::int64_t Engine::num_unfinished() const { return std::ssize(state_->sequences); }

EngineStats Engine::stats() const {
  EngineStats stats = state_->stats;
  if (stats.steps > 0) {
    const auto num_steps = static_cast<double>(stats.steps);
    stats.mean_batch /= num_steps;
    stats.mean_pages_used /= num_steps;
    stats.mean_page_waste /= num_steps;
    stats.mean_compression_bytes /= num_steps;
  }
  stats.pages_peak = state_->pool.peak_used();
  stats.evicted_pages = state_->pool.num_evicted();
  const scheduler::PrefixStats& prefix = state_->scheduler.prefix_stats();
  stats.prefix_lookup_tokens = prefix.lookup_tokens;
  stats.prefix_hit_tokens = prefix.hit_tokens;
  stats.disk_hit_tokens = prefix.tier_tokens;
  return stats;
}

}  // namespace caption::engine
