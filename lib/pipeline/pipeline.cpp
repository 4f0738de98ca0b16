#include "pipeline/pipeline.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "pipeline/internal/stages.h"

namespace caption::pipeline {
namespace {

std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

records::Status status_of(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop: return records::Status::kOk;
    case engine::FinishReason::kLength: return records::Status::kTruncated;
    case engine::FinishReason::kLoop: return records::Status::kLooped;
    case engine::FinishReason::kFailed: return records::Status::kFailed;
  }
  return records::Status::kOk;
}

// The last stage, on the caller's thread: submits requests, steps the engine, writes records.
class EngineStage {
 public:
  EngineStage(model::CaptionModel& model, const Options& options, records::RecordSink& sink,
              JobQueue& in, std::int64_t num_inputs)
      : model_(model),
        options_(options),
        sink_(sink),
        in_(in),
        pool_(options.threads.engine),
        stream_(pool_),
        engine_(model.decoder(), stream_, options.engine) {
    progress_.clips_total = num_inputs;
  }

  Ending run() {
    while (!is_cancelled() && !reader_gone_) {
      if (!take_jobs()) break;
      for (const engine::Completion& completion : engine_.step()) finish(completion);
      report();
    }
    report();
    if (reader_gone_) return Ending::kReaderGone;
    return is_cancelled() ? Ending::kCancelled : Ending::kFinished;
  }

  const Progress& progress() const { return progress_; }
  engine::EngineStats engine_stats() const { return engine_.stats(); }

 private:
  bool is_cancelled() const { return options_.stop->load(); }

  // As many requests as may run, and as many again, so that a place that becomes free is taken in
  // the next step. Their vision tokens are held in memory: no further ahead.
  bool has_room() const {
    return engine_.num_unfinished() < 2 * static_cast<std::int64_t>(options_.engine.max_num_seqs);
  }

  // A static batch is fixed when it starts: it waits to be full.
  bool waits_for_batch() const {
    return options_.engine.batching == engine::BatchMode::kStatic && !batch_is_running_ &&
           engine_.num_unfinished() < options_.engine.max_num_seqs;
  }

  // Submits what is there; waits only when the engine has nothing to do. False when all is done.
  bool take_jobs() {
    if (engine_.idle()) batch_is_running_ = false;
    while (has_room() && !is_cancelled() && !reader_gone_) {
      const bool may_wait = engine_.idle() || waits_for_batch();
      std::optional<Job> job = may_wait ? in_.pop() : in_.try_pop();
      if (!job) break;
      take(*std::move(job));
    }
    batch_is_running_ = true;
    return !engine_.idle();
  }

  void take(Job job) {
    if (job.is_skipped) {
      ++progress_.files_skipped;
      --progress_.clips_total;
      return report();
    }
    if (!job.is_over()) {
      try {
        const engine::RequestId id = engine_.submit(*std::move(job.request));
        job.request.reset();
        running_.emplace(id, std::move(job));
        return;
      } catch (const Error& error) {
        set_failed(job.record, error.code(), error.what());
      }
    }
    write(job);
  }

  void finish(const engine::Completion& completion) {
    const auto it = running_.find(completion.id);
    CAPTION_CHECK(it != running_.end(), "a completion of no request");
    Job job = std::move(it->second);
    running_.erase(it);
    records::Record& record = job.record;
    if (completion.error) {
      set_failed(record, completion.error->code(), completion.error->what());
      return write(job);
    }
    record.caption = trimmed(model_.tokenizer().decode(completion.output_ids));
    record.status = status_of(completion.finish_reason);
    record.finish_reason = engine::finish_reason_name(completion.finish_reason);
    record.output_tokens = std::ssize(completion.output_ids);
    record.first_token_ms = static_cast<double>(completion.first_token_us) / 1e3;
    if (record.caption.empty()) record.warnings.emplace_back("the caption is empty");
    progress_.output_tokens += record.output_tokens;
    write(job);
  }

  void write(Job& job) {
    job.record.total_ms = static_cast<double>(now_us() - job.start_us) / 1e3;
    if (reader_gone_) return;
    if (sink_.append(job.record) == records::AppendResult::kReaderGone) {
      reader_gone_ = true;
      return;
    }
    ++progress_.clips_done;
    if (job.record.error) {
      ++progress_.clips_failed;
      log_warning("run", job.record.error->message);
    }
    report();
  }

  void report() {
    progress_.elapsed_us = watch_.elapsed_us();
    if (options_.on_progress) options_.on_progress(progress_);
  }

  model::CaptionModel& model_;
  const Options& options_;
  records::RecordSink& sink_;
  JobQueue& in_;
  ThreadPool pool_;
  Stream stream_;
  engine::Engine engine_;
  std::unordered_map<engine::RequestId, Job> running_;
  Progress progress_;
  Stopwatch watch_;
  bool batch_is_running_ = false;
  bool reader_gone_ = false;
};

// Stops the stages whatever way run() is left: closed queues let no thread wait for ever.
class StopGuard {
 public:
  StopGuard(std::atomic<bool>& stop, JobQueue& frames, JobQueue& requests)
      : stop_(stop), frames_(frames), requests_(requests) {}
  ~StopGuard() {
    if (!is_released_) stop_.store(true);
    frames_.cancel();
    requests_.cancel();
  }
  StopGuard(const StopGuard&) = delete;
  StopGuard& operator=(const StopGuard&) = delete;

  // Every thread has come to its end by itself: the caller's flag stays as it is.
  void release() { is_released_ = true; }

 private:
  std::atomic<bool>& stop_;
  JobQueue& frames_;
  JobQueue& requests_;
  bool is_released_ = false;
};

}  // namespace

Outcome run(model::CaptionModel& model, const std::vector<Input>& inputs, const Options& options,
            records::RecordSink& sink) {
  Options settled = options;
  for (const std::int32_t id : model.eos_ids()) settled.sampling.stop_ids.push_back(id);
  if (settled.prompt.empty()) settled.prompt = model.default_prompt();

  std::atomic<bool> own_stop{false};
  if (settled.stop == nullptr) settled.stop = &own_stop;

  JobQueue frames(static_cast<std::size_t>(options.frame_queue_bytes));
  JobQueue requests(static_cast<std::size_t>(options.vision_queue_bytes));
  EngineStage engine_stage(model, settled, sink, requests, std::ssize(inputs));
  DecodeStage decode_stage(inputs, settled, frames);
  VisionStage vision_stage(model, settled, frames, requests);
  StopGuard guard(*settled.stop, frames, requests);

  Outcome outcome;
  outcome.ending = engine_stage.run();
  if (outcome.ending == Ending::kFinished) guard.release();
  outcome.progress = engine_stage.progress();
  outcome.busy = {.decode_us = decode_stage.busy_us(),
                  .vision_us = vision_stage.busy_us(),
                  .engine_us = engine_stage.engine_stats().busy_us};
  outcome.engine = engine_stage.engine_stats();
  return outcome;
}

}  // namespace caption::pipeline
