#include <algorithm>
#include <utility>

#include "base/log.h"
#include "pipeline/internal/stages.h"
#include "pipeline/internal/suspicion.h"
#include "records/file_name.h"

namespace caption::pipeline {
namespace {

std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
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

}  // namespace

EngineStage::EngineStage(model::CaptionModel& model, Shared& shared, EncodedQueue& in,
                         const InputList& inputs)
    : model_(model),
      shared_(shared),
      options_(shared.options),
      in_(in),
      pool_(options_.threads.engine),
      stream_(model.context(), pool_),
      engine_(model.decoder(), stream_, options_.engine) {
  progress_.num_prompts = std::ssize(options_.prompts);
  progress_.clips_total = static_cast<std::int64_t>(inputs.size()) * progress_.num_prompts;
  progress_.folders_unread = inputs.num_unread_folders();
  progress_.work.num_inputs = static_cast<std::int64_t>(inputs.size());
  progress_.work.num_decode_threads = options_.threads.decode;
}

Ending EngineStage::run() {
  while (!is_cancelled() && !reader_gone_) {
    if (!take_jobs()) break;
    for (engine::Completion& completion : step()) finish(std::move(completion));
    report();
  }
  report();
  if (reader_gone_) return Ending::kReaderGone;
  return is_cancelled() ? Ending::kCancelled : Ending::kFinished;
}

std::vector<engine::Completion> EngineStage::step() {
  const auto num_requests =
      static_cast<double>(std::max<std::int64_t>(1, engine_.num_unfinished()));
  const Stopwatch watch;
  std::vector<engine::Completion> completions = engine_.step();
  engine_share_ms_ += watch.elapsed_ms() / num_requests;
  return completions;
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
  while (has_room() && !is_cancelled() && !reader_gone_) {
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
  progress_.clips_total -= job.num_found;
  progress_.clips_found += job.num_found;
  progress_.found_failed += job.found_failed;
  for (const records::Record& record : job.ready) write(record, Origination::kTakenOver);
  for (std::size_t i = 0; i < job.tasks.size(); ++i) {
    Caption caption{.record = job.record,
                    .task = std::move(job.tasks[i]),
                    .suspicion = job.suspicion,
                    .origin = job.origin,
                    .is_skipped = job.is_skipped,
                    .start_us = job.start_us,
                    .text = nullptr};
    set_names(caption.record, options_, caption.task.prompt, caption.task.adapter);
    caption.record.moved_from = caption.task.moved_from;
    if (job.is_skipped || job.record.error.has_value()) {
      end(caption);
    } else {
      submit(std::move(encoded.requests.at(i)), std::move(caption));
    }
  }
  for (const Waiting& waiting : job.waiting) {
    Caption found{.record = job.record};
    set_names(found.record, options_, waiting.prompt, waiting.adapter);
    copy(found, waiting.follower);
  }
  report();
}

void EngineStage::submit(engine::Request request, Caption caption) {
  caption.record.prompt_tokens = std::ssize(request.prompt_ids);
  caption.record.vision_tokens = std::ssize(request.vision_positions);
  if (options_.on_text || !options_.stop_strings.empty()) {
    caption.text = std::make_unique<StreamedText>(model_.tokenizer(), options_);
    request.on_token = [text = caption.text.get()](std::int32_t token) {
      return text->push(token);
    };
  }
  caption.engine_ms = engine_share_ms_;
  try {
    if (options_.on_request) options_.on_request(caption.record, request);
    const engine::RequestId id = engine_.submit(std::move(request));
    running_.emplace(id, std::move(caption));
  } catch (const Error& error) {
    fail(caption.record, error);
    end(caption);
  }
}

void EngineStage::finish(engine::Completion completion) {
  const auto it = running_.find(completion.id);
  CAPTION_CHECK(it != running_.end(), "a completion of no request");
  Caption caption = std::move(it->second);
  running_.erase(it);
  records::Record& record = caption.record;
  record.engine_ms = engine_share_ms_ - caption.engine_ms;
  ++num_ended_by_engine_;
  engine_output_tokens_ += std::ssize(completion.output_ids) * options_.sampling.num_beams;
  if (completion.error) {
    if (completion.error->code() == ErrorCode::kBadModel) {
      require_sound_model(record, *completion.error);
    }
    fail(record, *completion.error);
    return end(caption);
  }
  has_captioned_ = true;
  record.caption =
      trimmed(caption.text != nullptr ? caption.text->finish()
                                      : model_.tokenizer().decode(completion.output_ids));
  record.status = status_of(completion.finish_reason);
  record.finish_reason = engine::finish_reason_name(completion.finish_reason);
  record.output_tokens = std::ssize(completion.output_ids);
  record.first_token_ms = static_cast<double>(completion.first_token_us) / 1e3;
  record.logprobs = to_records(completion.logprobs, model_.tokenizer());
  // What is left of a cut caption; when nothing is, it has no character at all.
  std::string_view text = record.caption;
  if (record.status == records::Status::kTruncated) text = without_cut_character(text);
  if (text.empty()) text = record.caption;
  const std::string reason = caption.suspicion.empty()
                                 ? suspicion_of_caption(text, model_.unlike_sentence())
                                 : caption.suspicion;
  if (!reason.empty()) record.status = records::Status::kSuspicious;
  if (record.status == records::Status::kSuspicious) {
    record.reason = reason.empty() ? std::string(records::kLoopReason) : reason;
  }
  progress_.output_tokens += record.output_tokens;
  end(caption);
}

// A model without finite logits for the first clip has none for the others.
void EngineStage::require_sound_model(const records::Record& record, const Error& error) const {
  if (has_captioned_ || progress_.clips_found > progress_.found_failed) return;
  throw Error(ErrorCode::kBadModel,
              records::unescape_file_name(record.video) +
                  ": the model has no finite logits for this clip, the first that it captions (" +
                  error.what() + "); nothing was captioned");
}

void EngineStage::end(Caption& caption) {
  caption.record.total_ms = static_cast<double>(now_us() - caption.start_us) / 1e3;
  if (caption.is_skipped) {
    ++progress_.files_skipped;
    --progress_.clips_total;
  } else {
    write(caption.record, Origination::kMade);
  }
  if (!caption.task.is_claimed) return;
  for (const Follower& follower : shared_.claims.release(caption.task.claim)) {
    copy(caption, follower);
  }
}

// Writes the record of a clip whose content equals that of `caption`, whose record is in the sink.
void EngineStage::copy(const Caption& caption, const Follower& follower) {
  if (caption.is_skipped && follower.origin == Origin::kFolderWalk) {
    ++progress_.files_skipped;
    --progress_.clips_total;
    return;
  }
  records::Earlier earlier =
      shared_.sink.find(follower.clip, follower.video, records::caption_key(caption.record));
  if (earlier.kind == records::Earlier::Kind::kElsewhere) {
    return write(*earlier.record, Origination::kTakenOver);
  }
  if (earlier.kind == records::Earlier::Kind::kFinished) {
    --progress_.clips_total;
    ++progress_.clips_found;
    progress_.found_failed += earlier.status == records::Status::kFailed ? 1 : 0;
    return;
  }
  records::Record record = caption.record;
  record.video = follower.video;
  record.file = follower.clip.file;
  record.moved_from = earlier.moved_from;
  if (record.error.has_value()) {
    record.error->message =
        follower.video + ": has the content of another file: " + record.error->message;
  } else {
    record.copy_of = caption.record.file.value_or(records::ClipFile{}).path;
    record.engine_ms = 0;
  }
  write(record, Origination::kTakenOver);
}

void EngineStage::write(const records::Record& record, Origination origination) {
  if (reader_gone_) return;
  require_same_model(model_);
  switch (shared_.sink.append(record)) {
    case records::AppendResult::kReaderGone: reader_gone_ = true; return;
    case records::AppendResult::kKept:
      --progress_.clips_total;
      ++progress_.clips_kept;
      if (record.error.has_value()) ++progress_.kept_failed;
      break;
    case records::AppendResult::kWritten: count(record, origination); break;
  }
  warn(record);
  report();
}

void EngineStage::count(const records::Record& record, Origination origination) {
  ++progress_.clips_done;
  progress_.last_clip = record.video;
  if (!record.warnings.empty()) ++progress_.clips_warned;
  if (record.status == records::Status::kSuspicious) ++progress_.clips_suspicious;
  if (record.status == records::Status::kTruncated) ++progress_.clips_truncated;
  if (record.error.has_value()) {
    ++progress_.clips_failed;
  } else if (origination == Origination::kMade) {
    ++progress_.clips_captioned;
  } else if (record.copy_of.empty() || !record.moved_from.empty()) {
    ++progress_.clips_moved;
  } else {
    ++progress_.clips_copied;
  }
}

// A clip that fails before generation fails for all prompts with the same message, logged once.
void EngineStage::warn(const records::Record& record) {
  if (!record.error.has_value()) return;
  const std::string warning = record.video + '\0' + record.error->message;
  if (warning == last_warning_) return;
  last_warning_ = warning;
  constexpr std::int64_t kMaxWarnings = 100;
  if (++num_warnings_ <= kMaxWarnings) log_warning("run", record.error->message);
  if (num_warnings_ == kMaxWarnings + 1) {
    log_warning("run", "more than " + std::to_string(kMaxWarnings) +
                           " clips failed; why the others do is said in their records only");
  }
}

// An unfinished caption counts as its tokens divided by the mean tokens of a finished caption.
void EngineStage::measure() {
  const StageCounters& counters = shared_.counters;
  const engine::EngineStats stats = engine_.stats();
  StageWork& work = progress_.work;
  work.busy = {.decode_us = counters.decode_us.load(),
               .identity_us = counters.identity_us.load(),
               .cache_us = counters.cache_us.load(),
               .vision_us = counters.vision_us.load(),
               .engine_us = stats.busy_us};
  work.clips_looked_at = counters.clips_looked_at.load();
  work.clips_read = counters.clips_read.load();
  work.clips_encoded = counters.clips_encoded.load();
  const auto num_ended = static_cast<double>(num_ended_by_engine_);
  work.captions_begun = 0;
  if (engine_output_tokens_ > 0) {
    const double tokens_begun = static_cast<double>(stats.decode_tokens - engine_output_tokens_);
    work.captions_begun =
        std::clamp(tokens_begun * num_ended / static_cast<double>(engine_output_tokens_), 0.0,
                   static_cast<double>(engine_.num_unfinished()));
  }
  work.captions_made = num_ended + work.captions_begun;
}

void EngineStage::report() {
  progress_.elapsed_us = watch_.elapsed_us();
  measure();
  if (options_.on_progress) options_.on_progress(progress_);
}

}  // namespace caption::pipeline
