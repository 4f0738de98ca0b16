#include "pipeline/internal/recorder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/log.h"
#include "records/file_name.h"

namespace caption::pipeline {
namespace {

double weighted_mean(const std::vector<engine::EngineStats>& engines,
                     double engine::EngineStats::*mean) {
  double sum = 0;
  double num_steps = 0;
  for (const engine::EngineStats& stats : engines) {
    sum += stats.*mean * static_cast<double>(stats.steps);
    num_steps += static_cast<double>(stats.steps);
  }
  return num_steps > 0 ? sum / num_steps : 0;
}

// Returns a job that reads the clip, which waited for `job` in vain, for a caption of its own.
Job job_of(const Waiting& waiting, const Job& job, std::string moved_from) {
  const Follower& follower = waiting.follower;
  Job own;
  own.record.video = follower.video;
  own.record.file = follower.clip.file;
  own.record.id = follower.clip.id;
  own.record.frames_wanted = job.record.frames_wanted;
  own.origin = follower.origin;
  own.content = job.content;
  own.tasks.push_back(
      {.prompt = waiting.prompt, .adapter = waiting.adapter, .moved_from = std::move(moved_from)});
  own.start_us = now_us();
  return own;
}

}  // namespace

engine::EngineStats combined(const std::vector<engine::EngineStats>& engines) {
  if (engines.size() == 1) return engines.front();
  engine::EngineStats all;
  for (const engine::EngineStats& stats : engines) {
    for (const auto counter :
         {&engine::EngineStats::steps, &engine::EngineStats::graph_steps,
          &engine::EngineStats::prefill_tokens, &engine::EngineStats::recomputed_tokens,
          &engine::EngineStats::decode_tokens, &engine::EngineStats::draft_tokens,
          &engine::EngineStats::accepted_tokens, &engine::EngineStats::preemptions,
          &engine::EngineStats::busy_us, &engine::EngineStats::pages_total,
          &engine::EngineStats::pages_peak, &engine::EngineStats::prefix_lookup_tokens,
          &engine::EngineStats::prefix_hit_tokens, &engine::EngineStats::host_hit_tokens,
          &engine::EngineStats::disk_hit_tokens, &engine::EngineStats::evicted_pages,
          &engine::EngineStats::host_stored_pages}) {
      all.*counter += stats.*counter;
    }
    all.page_bytes = std::max(all.page_bytes, stats.page_bytes);
    all.mean_pages_used += stats.mean_pages_used;
    all.mean_compression_bytes += stats.mean_compression_bytes;
  }
  all.mean_batch = weighted_mean(engines, &engine::EngineStats::mean_batch);
  all.mean_page_waste = weighted_mean(engines, &engine::EngineStats::mean_page_waste);
  return all;
}

Recorder::Recorder(Shared& shared, const InputList& inputs, std::size_t num_replicas)
    : shared_(shared),
      options_(shared.options),
      engines_(num_replicas),
      num_unfinished_(num_replicas) {
  progress_.num_prompts = std::ssize(options_.prompts);
  progress_.clips_total = static_cast<std::int64_t>(inputs.size()) * progress_.num_prompts;
  progress_.folders_unread = inputs.num_unread_folders();
  progress_.work.num_inputs = static_cast<std::int64_t>(inputs.size());
  progress_.work.num_decode_threads = options_.threads.decode;
  progress_.work.num_replicas = static_cast<int>(num_replicas);
}

void Recorder::begin(const model::CaptionModel& model, const Job& job) {
  const std::lock_guard lock(mutex_);
  progress_.clips_total -= job.num_found;
  progress_.clips_found += job.num_found;
  progress_.found_failed += job.found_failed;
  for (const records::Record& record : job.ready) write(model, record, Origination::kTakenOver);
}

void Recorder::copy_to_waiting(const model::CaptionModel& model, const Job& job) {
  const std::lock_guard lock(mutex_);
  for (const Waiting& waiting : job.waiting) {
    const std::string key = records::caption_key(options_.prompts.at(waiting.prompt).name,
                                                 adapter_name(options_, waiting.adapter));
    records::Earlier earlier = take_over(model, waiting.follower, key);
    if (earlier.kind != records::Earlier::Kind::kNone) continue;
    shared_.returned.add(job_of(waiting, job, std::move(earlier.moved_from)),
                         ReturnedJobs::WasAt::kQueue);
  }
}

void Recorder::end(const model::CaptionModel& model, Caption& caption) {
  const std::lock_guard lock(mutex_);
  end_locked(model, caption);
}

void Recorder::end_made(const model::CaptionModel& model, Caption& caption,
                        std::int64_t num_tokens) {
  const std::lock_guard lock(mutex_);
  ++num_ended_by_engine_;
  engine_output_tokens_ += num_tokens;
  if (!caption.record.error.has_value()) {
    has_captioned_ = true;
    progress_.output_tokens += caption.record.output_tokens;
  }
  end_locked(model, caption);
}

// A model without finite logits for the first clip has none for the others.
void Recorder::require_sound_model(const model::CaptionModel& model, const records::Record& record,
                                   const Error& error) {
  const std::lock_guard lock(mutex_);
  if (has_captioned_ || progress_.clips_found > progress_.found_failed) return;
  const std::optional<std::string> broken = model.find_broken_weight();
  throw Error(ErrorCode::kBadModel,
              records::unescape_file_name(record.video) +
                  ": the model has no finite logits for this clip, the first that it captions (" +
                  error.what() + "); nothing was captioned; " +
                  (broken ? *broken + ": download the file again"
                          : "download the model again, or try --dtype f32"));
}

void Recorder::show(const records::Record& record, engine::Request& request,
                    const DraftInputs& drafts) {
  if (!options_.on_request && !options_.on_draft_inputs) return;
  const std::lock_guard lock(mutex_);
  if (options_.on_request) options_.on_request(record, request);
  if (options_.on_draft_inputs) options_.on_draft_inputs(record, request, drafts);
}

void Recorder::note(std::size_t replica, const engine::Engine& engine) {
  const std::lock_guard lock(mutex_);
  note_locked(replica, engine);
}

void Recorder::report(std::size_t replica, const engine::Engine& engine) {
  const std::lock_guard lock(mutex_);
  note_locked(replica, engine);
  report();
}

void Recorder::note_locked(std::size_t replica, const engine::Engine& engine) {
  engines_.at(replica) = engine.stats();
  num_unfinished_.at(replica) = engine.num_unfinished();
}

Progress Recorder::progress() {
  const std::lock_guard lock(mutex_);
  return progress_;
}

engine::EngineStats Recorder::engine_stats() {
  const std::lock_guard lock(mutex_);
  return combined(engines_);
}

void Recorder::end_locked(const model::CaptionModel& model, Caption& caption) {
  caption.record.total_ms = static_cast<double>(now_us() - caption.start_us) / 1e3;
  if (caption.is_skipped) {
    ++progress_.files_skipped;
    --progress_.clips_total;
  } else {
    write(model, caption.record, Origination::kMade);
  }
  if (!caption.task.is_claimed) return;
  for (const Follower& follower : shared_.claims.release(caption.task.claim)) {
    copy(model, caption, follower);
  }
}

// Looks for what the sink has of a clip, and writes or counts it; with kNone nothing is done.
records::Earlier Recorder::take_over(const model::CaptionModel& model, const Follower& follower,
                                     std::string_view key) {
  records::Earlier earlier = shared_.sink.find(follower.clip, follower.video, key);
  if (earlier.kind == records::Earlier::Kind::kElsewhere) {
    write(model, *earlier.record, Origination::kTakenOver);
  } else if (earlier.kind == records::Earlier::Kind::kFinished) {
    --progress_.clips_total;
    ++progress_.clips_found;
    progress_.found_failed += earlier.status == records::Status::kFailed ? 1 : 0;
  }
  return earlier;
}

// Writes the record of a clip whose content equals that of `caption`, whose record is in the sink.
void Recorder::copy(const model::CaptionModel& model, const Caption& caption,
                    const Follower& follower) {
  if (caption.is_skipped && follower.origin == Origin::kFolderWalk) {
    ++progress_.files_skipped;
    --progress_.clips_total;
    return;
  }
  const records::Earlier earlier = take_over(model, follower, records::caption_key(caption.record));
  if (earlier.kind != records::Earlier::Kind::kNone) return;
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
    record.speculation.reset();
  }
  write(model, record, Origination::kTakenOver);
}

void Recorder::write(const model::CaptionModel& model, const records::Record& record,
                     Origination origination) {
  if (reader_gone_) return;
  require_same_model(model);
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

void Recorder::count(const records::Record& record, Origination origination) {
  ++progress_.clips_done;
  progress_.last_clip = record.video;
  if (!record.warnings.empty()) {
    ++progress_.clips_warned;
    progress_.last_warning = record.video + ": " + record.warnings.back();
  }
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
void Recorder::warn(const records::Record& record) {
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
void Recorder::measure() {
  const StageCounters& counters = shared_.counters;
  const engine::EngineStats stats = combined(engines_);
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
    const std::int64_t num_unfinished =
        std::accumulate(num_unfinished_.begin(), num_unfinished_.end(), std::int64_t{0});
    const double tokens_begun = static_cast<double>(stats.decode_tokens - engine_output_tokens_);
    work.captions_begun =
        std::clamp(tokens_begun * num_ended / static_cast<double>(engine_output_tokens_), 0.0,
                   static_cast<double>(num_unfinished));
  }
  work.captions_made = num_ended + work.captions_begun;
}

void Recorder::report() {
  progress_.elapsed_us = watch_.elapsed_us();
  measure();
  if (options_.on_progress) options_.on_progress(progress_);
}

}  // namespace caption::pipeline
