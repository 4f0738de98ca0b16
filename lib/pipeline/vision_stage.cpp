#include <memory>
#include <new>
#include <utility>

#include "base/clock.h"
#include "pipeline/internal/stages.h"
#include "vision/preprocess.h"

namespace caption::pipeline {
namespace {

constexpr std::size_t kRecordBytes = 1024;

std::size_t request_bytes(const Job& job) {
  if (!job.request) return kRecordBytes;
  const engine::Request& request = *job.request;
  return request.vision->size_bytes() + request.prompt_ids.size() * sizeof(std::int32_t) +
         request.vision_positions.size() * sizeof(std::int32_t) + kRecordBytes;
}

}  // namespace

VisionStage::VisionStage(model::CaptionModel& model, const Options& options, JobQueue& in,
                         JobQueue& out)
    : model_(model), options_(options), in_(in), out_(out), thread_([this] { work(); }) {}

VisionStage::~VisionStage() { thread_.join(); }

void VisionStage::work() {
  ThreadPool pool(options_.threads.vision);
  Stream stream(pool);
  while (std::optional<Job> job = in_.pop()) {
    const Stopwatch watch;
    if (!job->is_over()) encode(stream, *job);
    busy_us_ += watch.elapsed_us();
    const std::size_t size_bytes = request_bytes(*job);
    if (!out_.push(*std::move(job), size_bytes)) break;
  }
  in_.cancel();  // nobody takes what decoders might still push
  out_.close();
}

void VisionStage::encode(Stream& stream, Job& job) {
  const Stopwatch watch;
  try {
    const std::int64_t num_frames = std::ssize(job.clip.frames);
    const Tensor pixels =
        vision::preprocess(stream.pool(), job.clip.frames, model_.preprocess_spec());
    job.clip = {};
    model::PromptIds prompt = model_.build_prompt(options_.prompt, num_frames);
    engine::Request request;
    request.vision =
        std::make_shared<const Tensor>(model_.encode_frames(stream, pixels.view()));
    request.prompt_ids = std::move(prompt.ids);
    request.vision_positions = std::move(prompt.vision_positions);
    request.sampling = options_.sampling;
    job.record.prompt_tokens = std::ssize(request.prompt_ids);
    job.record.vision_tokens = std::ssize(request.vision_positions);
    job.request = std::move(request);
  } catch (const Error& error) {
    set_failed(job.record, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    set_failed(job.record, ErrorCode::kOutOfMemory, "not enough memory to encode the frames");
  } catch (const std::exception& error) {
    set_failed(job.record, ErrorCode::kInternal, error.what());
  }
  job.clip = {};
  job.record.vision_ms = watch.elapsed_ms();
}

}  // namespace caption::pipeline
