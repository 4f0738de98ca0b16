#include "pipeline/internal/engine_stage.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "pipeline/internal/suspicion.h"
#include "records/file_name.h"

namespace caption::pipeline {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(kSpaceAroundCaptions);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaceAroundCaptions) + 1 - begin);
}

// Removes U+FFFD at the end: a caption may end inside a character of several byte tokens.
std::string_view without_cut_character(std::string_view caption) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  while (caption.ends_with(kReplacement)) caption.remove_suffix(kReplacement.size());
  return caption;
}

records::Status status_of(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop: return records::Status::kOk;
    case engine::FinishReason::kLength: return records::Status::kTruncated;
    case engine::FinishReason::kLoop: return records::Status::kSuspicious;
    case engine::FinishReason::kFailed: return records::Status::kFailed;
  }
  return records::Status::kOk;
}

void fail(records::Record& record, const Error& error) {
  set_failed(record, error.code(),
             records::unescape_file_name(record.video) + ": captioning it: " + error.what());
}

std::vector<records::TokenLogprob> to_records(const std::vector<sampling::TokenLogprobs>& logprobs,
                                              const text::Tokenizer& tokenizer) {
  const auto text_of = [&](std::int32_t id) {
    return records::escape_file_name(tokenizer.token_bytes(id));
  };
  std::vector<records::TokenLogprob> out;
  for (const sampling::TokenLogprobs& token : logprobs) {
    records::TokenLogprob& written = out.emplace_back();
    written.token = text_of(token.chosen.id);
    written.logprob = token.chosen.logprob;
    for (const sampling::TokenLogprob& top : token.top) {
      written.top.emplace_back(text_of(top.id), top.logprob);
    }
  }
  return out;
}

// Captions of one prompt and adapter resemble each other.
std::uint64_t topic_of(const Task& task) {
  return static_cast<std::uint64_t>(task.prompt) << 32 | static_cast<std::uint32_t>(task.adapter);
}

// A draft model that rested while the caption was written is named as well, with no drafts.
records::Speculation speculation_of(const drafts::DraftCounts& counts, std::int64_t num_tokens,
                                    bool has_model) {
  records::Speculation speculation{.steps = num_tokens - counts.further_tokens};
  for (std::size_t i = 0; i < counts.computed.size(); ++i) {
    const bool rested = has_model && i == static_cast<std::size_t>(drafts::GuessSource::kModel);
    if (counts.computed[i] == 0 && !rested) continue;
    speculation.sources.push_back(
        {.name = std::string(drafts::guess_source_name(static_cast<drafts::GuessSource>(i))),
         .computed = counts.computed[i],
         .accepted = counts.accepted[i]});
  }
  return speculation;
}

// The clip of a caption that is left to be made.
Job job_of(Caption caption) {
  Job job;
  job.record = std::move(caption.record);
  job.origin = caption.origin;
  job.content = content_of(job.record);
  job.tasks.push_back(std::move(caption.task));
  job.start_us = caption.start_us;
  job.num_losses = caption.num_losses;
  return job;
}

}  // namespace

EngineStage::EngineStage(const Replica& replica, const engine::EngineOptions& options,
                         std::size_t number, Shared& shared, ReplicaDevice& device,
                         Recorder& recorder, EncodedQueue& in)
    : model_(*replica.model),
      shared_(shared),
      options_(shared.options),
      device_(device),
      recorder_(recorder),
      in_(in),
      number_(number),
      pool_(options_.threads.engine),
      stream_(model_.context(), pool_),
      engine_(model_.decoder(), stream_, with_drafts(replica, options)) {}

void EngineStage::open_draft(const Replica& replica, const engine::EngineOptions& options) {
  model::CaptionModel& draft = *replica.draft;
  draft_stream_.emplace(draft.context(), pool_);
  draft_decoder_.emplace(
      draft.decoder(), *draft_stream_,
      draft_decoder_options(model_, draft, options, replica.draft_kv_cache_bytes),
      match_draft(model_, draft));
}

engine::EngineOptions EngineStage::with_drafts(const Replica& replica,
                                               engine::EngineOptions options) {
  const drafts::DrafterOptions& how = options_.drafts.how;
  if (how.method == drafts::Method::kNone) return options;
  if (replica.draft != nullptr) open_draft(replica, options);
  if (how.method == drafts::Method::kSelf) {
    options.self_draft = &self_draft_.emplace(options_.drafts.layers);
  }
  options.draft_source = &drafter_.emplace(how, shared_.archive, shared_.nearest, draft_model());
  options.max_drafts = how.max_drafts;
  options.max_copied_tokens = static_cast<std::int32_t>(drafts::most_copied_tokens(
      how.method, options_.sampling.max_new_tokens, model_.decoder().spec().vocab));
  return options;
}

drafts::DraftModel* EngineStage::draft_model() {
  if (self_draft_.has_value()) return &*self_draft_;
  return draft_decoder_.has_value() ? &*draft_decoder_ : nullptr;
}

bool EngineStage::goes_on() const {
  return !is_cancelled() && !recorder_.reader_is_gone() && !device_.is_lost();
}

void EngineStage::run() {
  if (options_.encodes_first) in_.wait_until_filled();
  while (goes_on()) {
    if (!take_jobs()) break;
    std::vector<engine::Completion> completions = step();
    recorder_.note(number_, engine_);
    for (engine::Completion& completion : completions) finish(std::move(completion));
    recorder_.report(number_, engine_);
  }
  recorder_.report(number_, engine_);
  if (device_.is_lost()) give_back_all();
}

// The vision stage pushes nothing into a closed queue, and gives back what it has itself.
void EngineStage::give_back_all() {
  in_.close();
  for (auto& [id, caption] : running_) {
    shared_.returned.add(job_of(std::move(caption)), ReturnedJobs::WasAt::kWork);
  }
  running_.clear();
  while (std::optional<EncodedJob> encoded = in_.try_pop()) {
    shared_.returned.add(std::move(encoded->job), ReturnedJobs::WasAt::kQueue);
  }
}

std::vector<engine::Completion> EngineStage::step() {
  const auto num_requests =
      static_cast<double>(std::max<std::int64_t>(1, engine_.num_unfinished()));
  const Stopwatch watch;
  try {
    std::vector<engine::Completion> completions = engine_.step();
    engine_share_ms_ += watch.elapsed_ms() / num_requests;
    if (draft_decoder_.has_value()) device_.set_draft_rests(drafter_->is_model_resting());
    return completions;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    device_.lose(error);
    return {};
  }
}

// Admits twice max_num_seqs requests, so that a finished sequence is replaced in the next step, but
// no more, because the vision tokens of waiting requests occupy memory.
bool EngineStage::has_room() const {
  return engine_.num_unfinished() < 2 * static_cast<std::int64_t>(options_.engine.max_num_seqs);
}

// A static batch cannot grow once it runs, so the stage waits until it is full.
bool EngineStage::waits_for_batch() const {
  return options_.engine.batching == engine::BatchMode::kStatic && !batch_is_running_ &&
         engine_.num_unfinished() < options_.engine.max_num_seqs;
}

// Submits the available jobs; waits only when the engine has nothing to do. Returns false when all
// jobs are done.
bool EngineStage::take_jobs() {
  if (engine_.idle()) batch_is_running_ = false;
  while (has_room() && goes_on()) {
    const bool may_wait = engine_.idle() || waits_for_batch();
    std::optional<EncodedJob> encoded = may_wait ? in_.pop() : in_.try_pop();
    if (!encoded) break;
    take(*std::move(encoded));
  }
  batch_is_running_ = true;
  return !engine_.idle();
}

void EngineStage::take(EncodedJob encoded) {
  Job& job = encoded.job;
  recorder_.begin(model_, job);
  for (std::size_t i = 0; i < job.tasks.size(); ++i) {
    const std::uint64_t topic = topic_of(job.tasks[i]);
    Caption caption{.record = job.record,
                    .task = std::move(job.tasks[i]),
                    .suspicion = job.suspicion,
                    .origin = job.origin,
                    .is_skipped = job.is_skipped,
                    .num_losses = job.num_losses,
                    .start_us = job.start_us,
                    .text = nullptr};
    set_names(caption.record, options_, caption.task.prompt, caption.task.adapter);
    caption.record.moved_from = caption.task.moved_from;
    if (job.is_skipped || job.record.error.has_value()) {
      recorder_.end(model_, caption);
    } else {
      const bool has_draft = !encoded.draft_prompts.empty();
      submit(std::move(encoded.requests.at(i)), std::move(caption),
             {.topic = topic,
              .look = encoded.look,
              .prompt = has_draft ? std::move(encoded.draft_prompts.at(i)) : std::nullopt});
    }
  }
  recorder_.copy_to_waiting(model_, job);
  recorder_.report(number_, engine_);
}

void EngineStage::submit(engine::Request request, Caption caption, DraftInputs drafts) {
  caption.record.prompt_tokens = std::ssize(request.prompt_ids);
  caption.record.vision_tokens = std::ssize(request.vision_positions);
  if (options_.on_text || !options_.stop_strings.empty()) {
    caption.text = std::make_unique<StreamedText>(model_.tokenizer(), options_);
    request.on_token = [text = caption.text.get()](std::int32_t token) {
      return text->push(token);
    };
  }
  caption.engine_ms = engine_share_ms_;
  engine::RequestId id{};
  try {
    recorder_.show(caption.record, request, drafts);
    id = engine_.submit(std::move(request));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnavailable) {  // the engine reserves memory of the device
      device_.lose(error);
      return shared_.returned.add(job_of(std::move(caption)), ReturnedJobs::WasAt::kWork);
    }
    fail(caption.record, error);
    return recorder_.end(model_, caption);
  }
  running_.emplace(id, std::move(caption));
  if (drafter_ && drafts.look) {
    drafter_->begin(static_cast<std::int64_t>(id), drafts.topic, *drafts.look);
  }
  if (drafts.prompt.has_value()) begin_draft(id, *std::move(drafts.prompt));
}

// A caption needs no drafts: it goes on without them, unless the device is lost.
void EngineStage::begin_draft(engine::RequestId id, engine::Request prompt) {
  try {
    draft_decoder_->begin(static_cast<std::int64_t>(id), std::move(prompt));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnavailable) return device_.lose(error);
    log_debug("pipeline",
              std::string("a caption has no drafts of the draft model: ") + error.what());
  }
}

void EngineStage::finish(engine::Completion completion) {
  const auto it = running_.find(completion.id);
  CAPTION_CHECK(it != running_.end(), "a completion of no request");
  Caption caption = std::move(it->second);
  running_.erase(it);
  records::Record& record = caption.record;
  record.engine_ms = engine_share_ms_ - caption.engine_ms;
  const std::int64_t num_tokens = std::ssize(completion.output_ids) * options_.sampling.num_beams;
  drafts::DraftCounts drafts;
  if (drafter_) drafts = drafter_->take_counts(static_cast<std::int64_t>(completion.id));
  if (completion.error) {
    if (completion.error->code() == ErrorCode::kBadModel) {
      recorder_.require_sound_model(model_, record, *completion.error);
    }
    fail(record, *completion.error);
    return recorder_.end_made(model_, caption, num_tokens);
  }
  record.caption =
      trimmed(caption.text != nullptr ? caption.text->finish()
                                      : model_.tokenizer().decode(completion.output_ids));
  record.status = status_of(completion.finish_reason);
  record.finish_reason = engine::finish_reason_name(completion.finish_reason);
  record.output_tokens = std::ssize(completion.output_ids);
  record.first_token_ms = static_cast<double>(completion.first_token_us) / 1e3;
  if (drafter_ && options_.sampling.num_beams == 1) {  // beams have no drafts
    record.speculation = speculation_of(drafts, record.output_tokens, draft_decoder_.has_value());
  }
  record.logprobs = to_records(completion.logprobs, model_.tokenizer());
  // What is left of a cut caption; when nothing is, it has no character at all.
  std::string_view text = record.caption;
  if (record.status == records::Status::kTruncated) text = without_cut_character(text);
  if (text.empty()) text = record.caption;
  std::string reason = caption.suspicion;
  if (reason.empty()) reason = suspicion_of_losses(record.frames_used, record.frames_wanted);
  if (reason.empty()) reason = suspicion_of_caption(text, model_.unlike_sentence());
  if (!reason.empty()) record.status = records::Status::kSuspicious;
  if (record.status == records::Status::kSuspicious) {
    record.reason = reason.empty() ? std::string(records::kLoopReason) : reason;
  }
  recorder_.end_made(model_, caption, num_tokens);
}

}  // namespace caption::pipeline
