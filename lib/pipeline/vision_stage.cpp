#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/sha256.h"
#include "pipeline/internal/stages.h"
#include "records/file_name.h"
#include "tensor/copy.h"
#include "vision/preprocess.h"

namespace caption::pipeline {
namespace {

model::ClipShape shape_of(const video::Clip& clip) {
  const video::Frame& first = clip.frames.front();
  model::ClipShape shape{.num_frames = std::ssize(clip.frames),
                         .frame = {.width_px = first.width_px, .height_px = first.height_px}};
  for (const video::Frame& frame : clip.frames) shape.times_us.push_back(frame.pts_us);
  return shape;
}

// Size of a job without its data in a queue; equal to the constant in decode_stage.cpp.
constexpr std::size_t kRecordBytes = 16 << 10;

constexpr std::size_t kRequestBytes = 1024;

// Refuses a clip with more vision tokens than the model has positions before the tower spends its
// time and memory on it; the engine refuses what exceeds them with the rest of the prompt.
void require_positions(model::CaptionModel& model, const model::ClipShape& shape,
                       const std::string& video) {
  const std::int64_t num_tokens = model.vision_tokens(shape);
  const std::int64_t max_positions = model.decoder().spec().max_positions;
  if (num_tokens <= max_positions) return;
  throw Error(ErrorCode::kTooLong, records::unescape_file_name(video) +
                                       ": captioning it: " + counted(shape.num_frames, "frame") +
                                       " of " + std::to_string(shape.frame.width_px) + "x" +
                                       std::to_string(shape.frame.height_px) + " pixels have " +
                                       counted(num_tokens, "vision token") + "; the model has " +
                                       counted(max_positions, "position") + "; use fewer frames");
}

// Counts the vision tokens once, because the requests of a clip share them.
std::size_t bytes_of(const EncodedJob& encoded) {
  std::size_t sum = kRecordBytes;
  for (const engine::Request& request : encoded.requests) {
    sum += request.prompt_ids.size() * sizeof(std::int32_t) +
           request.vision_positions.size() * sizeof(std::int32_t) +
           request.positions.size() * sizeof(std::int32_t) + kRequestBytes;
  }
  return encoded.requests.empty() ? sum : sum + encoded.requests.front().vision->size_bytes();
}

}  // namespace

VisionStage::VisionStage(model::CaptionModel& model, Shared& shared, DecodedQueue& in,
                         EncodedQueue& out)
    : model_(model),
      shared_(shared),
      options_(shared.options),
      in_(in),
      out_(out),
      pool_(options_.threads.vision),
      stream_(model.context(), pool_) {
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kOutOfMemory,
                std::string("cannot start the vision thread: ") + error.what());
  }
}

VisionStage::~VisionStage() { thread_.join(); }

void VisionStage::work() {
  try {
    while (std::optional<DecodedJob> decoded = in_.pop()) {
      Job& job = decoded->job;
      EncodedJob encoded;
      if (!job.is_over()) {
        guard(job.record, "vision", [&] { encoded.requests = prepare(*decoded); });
      }
      encoded.job = std::move(job);
      decoded.reset();
      if (!encoded.job.tasks.empty() && !encoded.job.is_skipped) ++shared_.counters.clips_encoded;
      const std::size_t size_bytes = bytes_of(encoded);
      if (!out_.push(std::move(encoded), size_bytes)) break;
    }
  } catch (...) {
    shared_.breakdown.set(std::current_exception());
    out_.cancel();
  }
  in_.cancel();  // unblocks decode threads that wait to push
  out_.close();
}

// Makes a request for each task from the frames, or from cached vision tokens.
std::vector<engine::Request> VisionStage::prepare(DecodedJob& decoded) {
  SeenClip clip = decoded.seen.has_value() ? *std::move(decoded.seen) : encode(decoded);
  const bool is_placed = clip.tokens.device() == stream_.device();
  const auto tokens = std::make_shared<const Tensor>(
      is_placed ? std::move(clip.tokens)
                : copy_to(stream_, stream_.device(), std::as_const(clip.tokens).view()));
  std::vector<engine::Request> requests;
  for (const Task& task : decoded.job.tasks) {
    const std::string& text = options_.prompts.at(task.prompt).text;
    model::PromptIds prompt = model_.build_prompt(text, clip.shape);
    engine::Request request;
    request.prompt_ids = std::move(prompt.ids);
    request.vision_positions = std::move(prompt.vision_positions);
    request.positions = std::move(prompt.positions);
    request.vision = tokens;
    request.vision_content = clip.pixel_content;
    if (task.adapter != kNoAdapter) {
      request.adapter = task.adapter;
      request.page_identity =
          options_.adapters.at(static_cast<std::size_t>(task.adapter)).page_identity;
    }
    request.sampling = sampling_of(decoded.job, text);
    requests.push_back(std::move(request));
  }
  return requests;
}

// Derives the seed from the clip and the prompt, so that their random numbers are independent of
// those of other clips and prompts.
sampling::SamplingParams VisionStage::sampling_of(const Job& job, const std::string& prompt) const {
  sampling::SamplingParams sampling = options_.sampling;
  sampling.counts_prompt = model_.penalties_count_prompt();
  Sha256Hasher hasher;
  hasher.update_value(options_.sampling.seed);
  hasher.update_string(job.content);
  hasher.update_string(prompt);
  sampling.seed = hasher.digest().short_key().high;
  return sampling;
}

// Stores the clip with its tokens copied to the host, where they are on a device.
void VisionStage::store(const Hash128& key, SeenClip& seen) {
  if (seen.tokens.device() == Device::kCpu) return shared_.cache->store(key, seen);
  Tensor on_device =
      std::exchange(seen.tokens, copy_to(stream_, Device::kCpu, std::as_const(seen.tokens).view()));
  shared_.cache->store(key, seen);
  seen.tokens = std::move(on_device);
}

SeenClip VisionStage::encode(DecodedJob& decoded) {
  Job& job = decoded.job;
  const Stopwatch watch;
  SeenClip seen;
  seen.shape = shape_of(decoded.clip);
  require_positions(model_, seen.shape, job.record.video);
  seen.frames_wanted = job.record.frames_wanted;
  seen.duration_us = decoded.clip.duration_us;
  seen.suspicion = job.suspicion;
  seen.warnings = job.record.warnings;
  const vision::PixelValues pixels =
      vision::preprocess(stream_, decoded.clip.frames, model_.preprocess_spec());
  decoded.clip = {};
  seen.pixel_content = pixels.content;
  seen.tokens = model_.encode_frames(stream_, pixels.values.view());
  stream_.synchronize();
  if (shared_.cache != nullptr && decoded.cache_key.has_value()) {
    require_same_model(model_);
    store(*decoded.cache_key, seen);
  }
  job.record.vision_ms = watch.elapsed_ms();
  shared_.counters.vision_us += watch.elapsed_us();
  return seen;
}

}  // namespace caption::pipeline
