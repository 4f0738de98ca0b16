#include <memory>
#include <new>
#include <utility>

#include "base/clock.h"
#include "pipeline/internal/stages.h"
#include "vision/preprocess.h"

namespace caption::pipeline {
namespace {

constexpr std::size_t kRecordBytes = 1024;

// The requests of a clip share its vision tokens.
std::size_t bytes_of(const Job& job) {
  std::size_t sum = kRecordBytes;
  for (const engine::Request& request : job.requests) {
    sum += request.prompt_ids.size() * sizeof(std::int32_t) +
           request.vision_positions.size() * sizeof(std::int32_t) + kRecordBytes;
  }
  return job.requests.empty() ? sum : sum + job.requests.front().vision->size_bytes();
}

}  // namespace

VisionStage::VisionStage(model::CaptionModel& model, const Options& options, VisionCache* cache,
                         JobQueue& in, JobQueue& out)
    : model_(model), options_(options), cache_(cache), in_(in), out_(out), thread_([this] {
        work();
      }) {}

VisionStage::~VisionStage() { thread_.join(); }

void VisionStage::work() {
  ThreadPool pool(options_.threads.vision);
  Stream stream(pool);
  while (std::optional<Job> job = in_.pop()) {
    if (!job->is_over()) prepare(stream, *job);
    const std::size_t size_bytes = bytes_of(*job);
    if (!out_.push(*std::move(job), size_bytes)) break;
  }
  in_.cancel();  // nobody takes what decoders might still push
  out_.close();
}

// From frames, or vision tokens of before, to a request for each prompt.
void VisionStage::prepare(Stream& stream, Job& job) {
  try {
    SeenClip clip = job.seen.has_value() ? *std::move(job.seen) : encode(stream, job);
    const auto tokens = std::make_shared<const Tensor>(std::move(clip.tokens));
    for (const std::size_t number : job.prompts) {
      model::PromptIds prompt =
          model_.build_prompt(options_.prompts.at(number).text, clip.frames_used);
      engine::Request request;
      request.prompt_ids = std::move(prompt.ids);
      request.vision_positions = std::move(prompt.vision_positions);
      request.vision = tokens;
      request.vision_content = clip.pixel_content;
      request.sampling = options_.sampling;
      job.requests.push_back(std::move(request));
    }
  } catch (const Error& error) {
    set_failed(job.record, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    set_failed(job.record, ErrorCode::kOutOfMemory, "not enough memory to encode the frames");
  } catch (const std::exception& error) {
    set_failed(job.record, ErrorCode::kInternal, error.what());
  }
  job.clip = {};
  job.seen.reset();
}

SeenClip VisionStage::encode(Stream& stream, Job& job) {
  const Stopwatch watch;
  SeenClip seen;
  seen.frames_used = std::ssize(job.clip.frames);
  seen.frames_wanted = job.record.frames_wanted;
  seen.duration_us = job.clip.duration_us;
  seen.warnings = job.record.warnings;
  const Tensor pixels =
      vision::preprocess(stream.pool(), job.clip.frames, model_.preprocess_spec());
  job.clip = {};
  seen.pixel_content = vision::pixel_hash(pixels.view());
  seen.tokens = model_.encode_frames(stream, pixels.view());
  if (cache_ != nullptr && job.cache_key.has_value()) cache_->store(*job.cache_key, seen);
  job.record.vision_ms = watch.elapsed_ms();
  busy_us_ += watch.elapsed_us();
  return seen;
}

}  // namespace caption::pipeline
