#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/utf8.h"
#include "pipeline/internal/stages.h"
#include "records/file_name.h"

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

std::int64_t count_captions(const std::vector<Input>& inputs, const Options& options) {
  std::int64_t sum = 0;
  for (const Input& input : inputs) {
    sum += input.prompts.empty() ? std::ssize(options.prompts) : std::ssize(input.prompts);
  }
  return sum;
}

}  // namespace

EngineStage::EngineStage(model::CaptionModel& model, const Options& options,
                         records::RecordSink& sink, JobQueue& in, const std::vector<Input>& inputs)
    : model_(model),
      options_(options),
      sink_(sink),
      in_(in),
      pool_(options.threads.engine),
      stream_(pool_),
      engine_(model.decoder(), stream_, options.engine) {
  progress_.num_prompts = std::ssize(options.prompts);
  progress_.clips_total = count_captions(inputs, options);
}

Ending EngineStage::run() {
  while (!is_cancelled() && !reader_gone_) {
    if (!take_jobs()) break;
    for (engine::Completion& completion : engine_.step()) finish(std::move(completion));
    report();
  }
  report();
  if (reader_gone_) return Ending::kReaderGone;
  return is_cancelled() ? Ending::kCancelled : Ending::kFinished;
}

// As many requests as may run, and as many again, so that a place that becomes free is taken in the
// next step. Their vision tokens are held in memory: no further ahead.
bool EngineStage::has_room() const {
  return engine_.num_unfinished() < 2 * static_cast<std::int64_t>(options_.engine.max_num_seqs);
}

// A static batch is fixed when it starts: it waits to be full.
bool EngineStage::waits_for_batch() const {
  return options_.engine.batching == engine::BatchMode::kStatic && !batch_is_running_ &&
         engine_.num_unfinished() < options_.engine.max_num_seqs;
}

// Submits what is there; waits only when the engine has nothing to do. False when all is done.
bool EngineStage::take_jobs() {
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

void EngineStage::take(Job job) {
  if (job.is_skipped) {
    ++progress_.files_skipped;
    progress_.clips_total -= std::ssize(job.prompts);
    return report();
  }
  for (std::size_t i = 0; i < job.prompts.size(); ++i) {
    Caption caption{.record = job.record, .start_us = job.start_us, .text = nullptr};
    caption.record.prompt = options_.prompts.at(job.prompts[i]).name;
    if (job.is_over()) {
      write(caption);
    } else {
      submit(std::move(job.requests[i]), std::move(caption));
    }
  }
}

void EngineStage::submit(engine::Request request, Caption caption) {
  caption.record.prompt_tokens = std::ssize(request.prompt_ids);
  caption.record.vision_tokens = std::ssize(request.vision_positions);
  if (options_.on_text || !options_.stop_strings.empty()) {
    caption.text = std::make_unique<SpokenText>(model_.tokenizer(), options_);
    request.on_token = [text = caption.text.get()](std::int32_t token) {
      return text->hear(token);
    };
  }
  try {
    const engine::RequestId id = engine_.submit(std::move(request));
    running_.emplace(id, std::move(caption));
  } catch (const Error& error) {
    set_failed(caption.record, error.code(), error.what());
    write(caption);
  }
}

void EngineStage::finish(engine::Completion completion) {
  const auto it = running_.find(completion.id);
  CAPTION_CHECK(it != running_.end(), "a completion of no request");
  Caption caption = std::move(it->second);
  running_.erase(it);
  records::Record& record = caption.record;
  if (completion.error) {
    set_failed(record, completion.error->code(), completion.error->what());
    return write(caption);
  }
  record.caption =
      trimmed(caption.text != nullptr ? caption.text->finish()
                                      : model_.tokenizer().decode(completion.output_ids));
  record.status = status_of(completion.finish_reason);
  record.finish_reason = engine::finish_reason_name(completion.finish_reason);
  record.output_tokens = std::ssize(completion.output_ids);
  record.first_token_ms = static_cast<double>(completion.first_token_us) / 1e3;
  record.logprobs = to_records(completion.logprobs, model_.tokenizer());
  if (record.caption.empty()) record.warnings.emplace_back("the caption is empty");
  progress_.output_tokens += record.output_tokens;
  write(caption);
}

void EngineStage::write(Caption& caption) {
  records::Record& record = caption.record;
  record.total_ms = static_cast<double>(now_us() - caption.start_us) / 1e3;
  if (reader_gone_) return;
  if (sink_.append(record) == records::AppendResult::kReaderGone) {
    reader_gone_ = true;
    return;
  }
  ++progress_.clips_done;
  if (record.error) {
    ++progress_.clips_failed;
    // A clip that fails before it is asked anything fails for all prompts alike.
    if (record.error->message != last_warning_) log_warning("run", record.error->message);
    last_warning_ = record.error->message;
  }
  report();
}

void EngineStage::report() {
  progress_.elapsed_us = watch_.elapsed_us();
  if (options_.on_progress) options_.on_progress(progress_);
}

}  // namespace caption::pipeline
