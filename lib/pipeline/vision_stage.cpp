#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sha256.h"
#include "pipeline/internal/stages.h"
#include "pipeline/internal/suspicion.h"
#include "records/file_name.h"
#include "tensor/copy.h"
#include "vision/preprocess.h"

namespace caption::pipeline {
namespace {

constexpr std::size_t kRequestBytes = 1024;
constexpr std::int64_t kClipsPerTrial = 16;

// Refuses a clip with more vision tokens than the model has positions before the tower spends its
// time and memory on it; the engine refuses what exceeds them with the rest of the prompt.
void require_positions(model::CaptionModel& model, const model::ClipShape& shape,
                       const std::string& video) {
  const std::int64_t num_tokens = model.vision_tokens(shape);
  const std::int64_t max_positions = model.decoder().spec().max_positions;
  if (num_tokens <= max_positions) return;
  throw Error(
      ErrorCode::kTooLong,
      records::unescape_file_name(video) +
          ": captioning it: " + counted(shape.num_frames, "frame") + " of " +
          std::to_string(shape.frame.width_px) + "x" + std::to_string(shape.frame.height_px) +
          " pixels have " + counted(num_tokens, "vision token") + "; the model has " +
          counted(max_positions, "position") + "; use fewer frames" +
          (model.preprocess_spec().smart ? " (--frames) or smaller ones (--max-pixels)" : ""));
}

bool has_work(std::span<const PixelJob> batch) {
  return std::any_of(batch.begin(), batch.end(),
                     [](const PixelJob& clip) { return !clip.decoded.job.is_over(); });
}

// As guard(), but lets Error(kUnavailable) pass: the device failed, and not the clip.
void guard_clip(records::Record& record, const std::function<void()>& work) {
  std::exception_ptr of_device;
  guard(record, "vision", [&] {
    try {
      work();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;
      of_device = std::current_exception();
    }
  });
  if (of_device != nullptr) std::rethrow_exception(of_device);
}

// Counts the vision tokens once, because the requests of a clip share them.
std::size_t bytes_of(const EncodedJob& encoded) {
  std::size_t sum = kRecordBytes;
  for (const engine::Request& request : encoded.requests) {
    sum += request.prompt_ids.size() * sizeof(std::int32_t) +
           request.vision_positions.size() * sizeof(std::int32_t) +
           request.positions.size() * sizeof(std::int32_t) + kRequestBytes;
  }
  if (encoded.requests.empty()) return sum;
  if (!encoded.draft_prompts.empty() && encoded.draft_prompts.front().has_value()) {
    const engine::Request& draft = *encoded.draft_prompts.front();
    if (draft.vision != nullptr) sum += draft.vision->size_bytes();
  }
  return sum + encoded.requests.front().vision->size_bytes();
}

}  // namespace

VisionStage::VisionStage(const Replica& replica, Shared& shared, ReplicaDevice& device,
                         std::vector<ExampleClip> examples, DecodedQueue& in, EncodedQueue& out)
    : model_(*replica.model),
      shared_(shared),
      options_(shared.options),
      device_(device),
      in_(in),
      out_(out),
      pool_(options_.threads.vision),
      stream_(model_.context(), pool_),
      waiting_examples_(std::move(examples)) {
  const bool has_drafts =
      options_.drafts.how.method != drafts::Method::kNone && options_.sampling.num_beams <= 1;
  if (has_drafts && replica.draft != nullptr) {
    draft_prompts_.emplace(*replica.draft, options_.drafts.model_reads);
  }
}

void VisionStage::start() {
  ++shared_.num_vision_stages;
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::exception& error) {  // there is no thread, or no memory for one
    --shared_.num_vision_stages;
    throw Error(ErrorCode::kOutOfMemory,
                std::string("cannot start the vision thread: ") + error.what());
  }
}

VisionStage::~VisionStage() { wait(); }

void VisionStage::wait() {
  if (thread_.joinable()) thread_.join();
}

void VisionStage::work() {
  bool is_broken = false;
  try {
    ReturnedJobs::WasAt was_at = ReturnedJobs::WasAt::kQueue;
    try {
      work_on_batches();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;
      device_.lose(error);
      was_at = ReturnedJobs::WasAt::kWork;
    }
    out_.close();  // wakes the engine's thread
    if (device_.is_lost()) give_back_all(was_at);
  } catch (...) {
    is_broken = true;
    shared_.breakdown.set(std::current_exception());
    out_.cancel();
  }
  // Nobody takes clips any more: unblocks decode threads that wait to push.
  if (--shared_.num_vision_stages == 0 || is_broken) in_.cancel();
}

void VisionStage::work_on_batches() {
  bool is_wanted = true;
  while (is_wanted && !device_.is_lost()) {
    take_batch();
    if (batch_.empty() || device_.is_lost()) return;
    if (!waiting_examples_.empty() && has_work(batch_)) encode_examples();
    encode(batch_);
    while (is_wanted && !batch_.empty()) {
      is_wanted = pass_on(batch_.front());
      if (is_wanted) batch_.erase(batch_.begin());
    }
  }
}

void VisionStage::give_back_all(ReturnedJobs::WasAt was_at) {
  for (PixelJob& clip : batch_) shared_.returned.add(std::move(clip.decoded.job), was_at);
  batch_.clear();
  if (!next_.has_value()) return;
  shared_.returned.add(std::move(next_->decoded.job), ReturnedJobs::WasAt::kQueue);
  next_.reset();
}

void VisionStage::encode_examples() {
  for (ExampleClip& example : waiting_examples_) {
    examples_.push_back(encode_example(example));
    example.frames.reset();
  }
  waiting_examples_.clear();
}

engine::SharedVision VisionStage::encode_example(const ExampleClip& example) {
  const auto share = [this](Tensor tokens, const Hash128& content) {
    if (tokens.device() != stream_.device()) {
      tokens = copy_to(stream_, stream_.device(), std::as_const(tokens).view());
    }
    return engine::SharedVision{.tokens = std::make_shared<const Tensor>(std::move(tokens)),
                                .content = content};
  };
  std::optional<Hash128> key;
  if (shared_.cache != nullptr) {
    key = shared_.cache->key_of(example.id);
    if (std::optional<SeenClip> seen = shared_.cache->find(*key)) {
      return share(std::move(seen->tokens), seen->pixel_content);
    }
  }
  SeenClip seen;
  seen.shape = example.shape;
  const video::Clip& clip = *example.frames;
  seen.frames_wanted = clip.frames_wanted;
  seen.duration_us = clip.duration_us;
  seen.suspicion = suspicion_of_frames(clip.frames);
  seen.warnings = warnings_of(options_.read.sampling, clip);
  const vision::PixelValues pixels =
      vision::preprocess(stream_, clip.frames, model_.preprocess_spec());
  seen.pixel_content = pixels.content;
  seen.tokens = model_.encode_frames(stream_, pixels.values.view());
  stream_.synchronize();
  if (key.has_value()) {
    require_same_model(model_);
    store(*key, seen);
  }
  return share(std::move(seen.tokens), seen.pixel_content);
}

// Waits for a clip and takes those that are in the queue behind it while one pass takes them all. A
// clip for which nothing is left to encode ends the batch. The batch is empty after the last clip.
void VisionStage::take_batch() {
  batch_.clear();
  std::optional<PixelJob> clip = next_ ? std::exchange(next_, std::nullopt) : take(in_.pop());
  double share = 0;
  while (clip.has_value()) {
    if (!batch_.empty() && clip->is_waiting() && share + clip->pass_share > 1) {
      next_ = std::move(clip);
      break;
    }
    share += clip->pass_share;
    const bool ends = !clip->is_waiting() || share >= 1;
    batch_.push_back(*std::move(clip));
    if (ends) break;
    clip = take(in_.try_pop());
  }
}

std::optional<PixelJob> VisionStage::take(std::optional<DecodedJob> decoded) {
  if (!decoded.has_value()) return std::nullopt;
  // The engine may have lost the device while this stage waited: it would fail at the clip, which
  // would be blamed for that.
  if (device_.is_lost()) {
    shared_.returned.add(std::move(decoded->job), ReturnedJobs::WasAt::kQueue);
    return std::nullopt;
  }
  PixelJob clip{.decoded = *std::move(decoded), .seen = {}, .pixels = {}};
  if (clip.decoded.job.is_over()) return clip;
  clip.is_for_draft = is_next_for_draft();
  if (clip.decoded.seen.has_value()) {
    clip.seen = *std::move(clip.decoded.seen);
  } else {
    try {
      guard_clip(clip.decoded.job.record, [&] { preprocess(clip); });
    } catch (const Error&) {
      shared_.returned.add(std::move(clip.decoded.job), ReturnedJobs::WasAt::kWork);
      throw;
    }
  }
  return clip;
}

bool VisionStage::is_next_for_draft() {
  if (!draft_prompts_.has_value()) return false;
  return !device_.draft_rests() || num_at_rest_++ % kClipsPerTrial == 0;
}

// Frees the frames.
void VisionStage::preprocess(PixelJob& clip) {
  const Stopwatch watch;
  video::Clip frames = std::exchange(clip.decoded.clip, {});
  const Job& job = clip.decoded.job;
  clip.seen.shape = shape_of(frames);
  require_positions(model_, clip.seen.shape, job.record.video);
  clip.seen.frames_wanted = job.record.frames_wanted;
  clip.seen.duration_us = frames.duration_us;
  clip.seen.suspicion = job.suspicion;
  clip.seen.warnings = job.record.warnings;
  clip.pixels = vision::preprocess(stream_, frames.frames, model_.preprocess_spec());
  clip.seen.pixel_content = clip.pixels.content;
  if (clip.is_for_draft) clip.draft_pixels = draft_prompts_->preprocess(stream_, frames);
  clip.pass_share = model_.pass_share(clip.pixels.values.shape());
  clip.vision_us = watch.elapsed_us();
}

// Encodes the clips of a batch that wait for it: together, or each by itself if that fails, so that
// only a clip that cannot be encoded fails.
void VisionStage::encode(std::span<PixelJob> batch) {
  std::vector<PixelJob*> clips;
  for (PixelJob& clip : batch) {
    if (clip.is_waiting()) clips.push_back(&clip);
  }
  if (clips.size() > 1) {
    try {
      encode_together(clips);
      return;
    } catch (const std::exception& error) {
      log_debug("pipeline", std::string("clips are encoded one by one: ") + error.what());
    }
  }
  for (PixelJob* const clip : clips) {
    guard_clip(clip->decoded.job.record, [&] { encode_together(std::span(&clip, 1)); });
  }
}

// The time is divided among the clips by their shares of a pass.
void VisionStage::encode_together(std::span<PixelJob* const> clips) {
  const Stopwatch watch;
  std::vector<ConstView> pixels;
  double shares = 0;
  for (const PixelJob* const clip : clips) {
    pixels.push_back(clip->pixels.values.view());
    shares += clip->pass_share;
  }
  std::vector<Tensor> tokens = model_.encode_clips(stream_, pixels);
  stream_.synchronize();
  for (PixelJob* const clip : clips) {
    if (clip->is_for_draft) {
      clip->draft_tokens = draft_prompts_->encode(stream_, clip->draft_pixels);
    }
  }
  const auto elapsed_us = static_cast<double>(watch.elapsed_us());
  for (std::size_t i = 0; i < clips.size(); ++i) {
    clips[i]->seen.tokens = std::move(tokens[i]);
    clips[i]->vision_us += std::llround(elapsed_us * clips[i]->pass_share / shares);
  }
}

// Returns false, with the job still in `clip`, when nobody takes clips any more.
bool VisionStage::pass_on(PixelJob& clip) {
  EncodedJob encoded;
  records::Record& record = clip.decoded.job.record;
  const bool is_new = clip.is_waiting();
  if (!clip.decoded.job.is_over()) {
    guard_clip(record, [&] {
      encoded.requests = make_requests(clip);
      encoded.draft_prompts = make_draft_prompts(clip);
    });
    encoded.look = clip.look;
  }
  if (is_new) {
    record.vision_ms = static_cast<double>(clip.vision_us) / 1e3;
    shared_.counters.vision_us += clip.vision_us;
  }
  encoded.job = std::move(clip.decoded.job);
  clip.pixels = {};
  if (std::exchange(encoded.job.is_counted, false)) ++shared_.counters.clips_encoded;
  const std::size_t size_bytes = std::max(bytes_of(encoded), shared_.least_queued_bytes);
  if (out_.push(std::move(encoded), size_bytes)) return true;
  clip.decoded.job = std::move(encoded.job);
  return false;
}

// Makes a request for each task, and stores vision tokens that were not in the cache.
std::vector<engine::Request> VisionStage::make_requests(PixelJob& clip) {
  const Stopwatch watch;
  if (clip.is_waiting() && shared_.cache != nullptr && clip.decoded.cache_key.has_value()) {
    require_same_model(model_);
    store(*clip.decoded.cache_key, clip.seen);
    clip.vision_us += watch.elapsed_us();
  }
  SeenClip& seen = clip.seen;
  if (shared_.nearest != nullptr) clip.look = look_of(seen.tokens);
  const bool is_placed = seen.tokens.device() == stream_.device();
  const auto tokens = std::make_shared<const Tensor>(
      is_placed ? std::move(seen.tokens)
                : copy_to(stream_, stream_.device(), std::as_const(seen.tokens).view()));
  std::vector<engine::Request> requests;
  for (const Task& task : clip.decoded.job.tasks) {
    const std::string& text = options_.prompts.at(task.prompt).text;
    model::PromptIds prompt =
        model_.build_prompt(conversation_of(options_.system, options_.examples, text), seen.shape);
    engine::Request request;
    request.prompt_ids = std::move(prompt.ids);
    request.vision_positions = std::move(prompt.vision_positions);
    request.positions = std::move(prompt.positions);
    request.leading_vision = examples_;
    request.vision = tokens;
    request.vision_content = seen.pixel_content;
    if (task.adapter != kNoAdapter) {
      request.adapter = task.adapter;
      request.page_identity =
          options_.adapters.at(static_cast<std::size_t>(task.adapter)).page_identity;
    }
    request.sampling = sampling_of(clip.decoded.job, text);
    requests.push_back(std::move(request));
  }
  return requests;
}

// The mean of a clip's vision tokens. Those on a device are copied to the host, which waits for the
// stage's stream and not for the engine's.
drafts::Sketch VisionStage::look_of(const Tensor& tokens) {
  if (tokens.device() != Device::kCpu) {
    return look_of(copy_to(stream_, Device::kCpu, tokens.view()));
  }
  const auto width = static_cast<std::size_t>(tokens.shape()[1]);
  std::vector<float> sums(width);
  const float* values = tokens.as<float>();
  for (std::int64_t row = 0; row < tokens.shape()[0]; ++row, values += width) {
    for (std::size_t i = 0; i < width; ++i) sums[i] += values[i];
  }
  return drafts::sketch_of(sums);
}

std::vector<std::optional<engine::Request>> VisionStage::make_draft_prompts(
    const PixelJob& clip) const {
  std::vector<std::optional<engine::Request>> prompts;
  if (!clip.is_for_draft) return prompts;
  for (const Task& task : clip.decoded.job.tasks) {
    prompts.push_back(draft_prompts_->make(options_.system, options_.prompts.at(task.prompt).text,
                                           clip.seen.shape, clip.draft_tokens));
  }
  return prompts;
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

}  // namespace caption::pipeline
