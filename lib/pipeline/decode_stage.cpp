#include <algorithm>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "pipeline/find_videos.h"
#include "pipeline/internal/stages.h"
#include "pipeline/internal/suspicion.h"
#include "records/file_name.h"

namespace caption::pipeline {
namespace {

bool is_not_video(ErrorCode code) {
  return code == ErrorCode::kNotVideo || code == ErrorCode::kNoVideoStream;
}

bool has_code(const records::Record& record, ErrorCode code) {
  return record.error.has_value() && record.error->code == error_code_name(code);
}

Hash128 claim_key(std::string_view content, const Task& task) {
  return sha256_of(std::string(content) + '\0' + std::to_string(task.prompt) + '\0' +
                   std::to_string(task.adapter))
      .short_key();
}

// Describes that a clip has more frames at the requested rate than the limit; empty when it has
// not.
std::string describe_cap(const video::SamplingOptions& sampling, const video::Clip& clip) {
  const double fps = sampling.frames_per_second();
  if (fps == 0) return {};
  constexpr double kUsPerSecond = 1e6;
  constexpr double kTolerance = 0.5;  // frames; the duration is known to half a frame
  const double duration_s = static_cast<double>(clip.duration_us) / kUsPerSecond;
  if (duration_s * fps <= sampling.num_frames + kTolerance) return {};
  return "fps=" + json_number(fps) + " gives more frames of " + json_number(duration_s, 1) +
         " s than --frames " + std::to_string(sampling.num_frames) +
         " allows; those taken are spread over the clip";
}

// Measures the lifetime of a scope, adds it to a sum and stores it in a record's field.
class Timed {
 public:
  Timed(std::atomic<std::int64_t>& sum_us, double& ms) : sum_us_(sum_us), ms_(ms) {}
  ~Timed() {
    sum_us_ += watch_.elapsed_us();
    ms_ = watch_.elapsed_ms();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  const Stopwatch watch_;
  std::atomic<std::int64_t>& sum_us_;
  double& ms_;
};

}  // namespace

void require_same_model(const model::CaptionModel& model) {
  if (const std::optional<std::string> changed = model.find_changed_file()) {
    throw Error(ErrorCode::kBadModel, *changed);
  }
}

void set_names(records::Record& record, const Options& options, std::size_t prompt,
               AdapterIndex adapter) {
  record.prompt = options.prompts.at(prompt).name;
  record.adapter = adapter_name(options, adapter);
}

std::vector<std::string> warnings_of(const video::SamplingOptions& sampling,
                                     const video::Clip& clip) {
  std::vector<std::string> warnings;
  if (std::string few = video::describe_few_frames(clip); !few.empty()) {
    warnings.push_back(std::move(few));
  }
  for (const std::string& warning : clip.warnings) {
    warnings.push_back(records::escape_file_name(warning));
  }
  const std::string capped = describe_cap(sampling, clip);
  if (!capped.empty()) warnings.push_back(capped);
  return warnings;
}

std::string content_of(const records::Record& record) {
  if (!record.id.empty()) return record.id;
  if (!record.file.has_value() || !record.file->size_bytes.has_value()) return {};
  // Includes the path, because two files of the same size and time may be different videos.
  return std::to_string(*record.file->size_bytes) + " bytes " +
         std::to_string(record.file->modified_ns.value_or(0)) + " " + record.file->path;
}

DecodeStage::DecodeStage(const InputList& inputs, Shared& shared, DecodedQueue& out)
    : inputs_(inputs),
      shared_(shared),
      options_(shared.options),
      out_(out),
      num_working_(options_.threads.decode) {
  start_threads();
}

DecodeStage::DecodeStage(const InputList& inputs, std::vector<Job> again, Shared& shared,
                         DecodedQueue& out)
    : inputs_(inputs),
      shared_(shared),
      options_(shared.options),
      out_(out),
      again_(std::move(again)),
      num_working_(options_.threads.decode) {
  start_threads();
}

void DecodeStage::start_threads() {
  threads_.reserve(static_cast<std::size_t>(options_.threads.decode));
  for (int i = 0; i < options_.threads.decode; ++i) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::exception& error) {  // there is no thread, or no memory for one
      const std::string what = "cannot start decode thread " + std::to_string(i + 1) + " of " +
                               std::to_string(options_.threads.decode) + ": " + error.what();
      if (threads_.empty()) throw Error(ErrorCode::kOutOfMemory, what);
      log_warning("run", what + "; the others go on");
      // Counts the threads that did not start as finished.
      if (num_working_.fetch_sub(options_.threads.decode - i) == options_.threads.decode - i) {
        out_.close();
      }
      return;
    }
  }
}

DecodeStage::~DecodeStage() {
  for (std::thread& thread : threads_) thread.join();
}

void DecodeStage::work() {
  try {
    read_inputs();
  } catch (...) {
    shared_.breakdown.set(std::current_exception());
    out_.cancel();
  }
  if (num_working_.fetch_sub(1) == 1) out_.close();
}

void DecodeStage::read_inputs() {
  const std::size_t num_inputs = again_.has_value() ? again_->size() : inputs_.size();
  while (!options_.stop->load()) {
    const std::size_t i = next_input_.fetch_add(1);
    if (i >= num_inputs) break;
    DecodedJob decoded = again_.has_value() ? read_again(std::move((*again_)[i])) : read(i);
    Job& job = decoded.job;
    if (job.is_cancelled) break;
    if (!again_.has_value()) {
      ++shared_.counters.clips_looked_at;
      job.is_counted = (!job.tasks.empty() || job.is_follower) && !job.is_skipped;
      if (job.is_counted) ++shared_.counters.clips_read;
    }
    const std::size_t seen_bytes = decoded.seen.has_value() ? decoded.seen->tokens.size_bytes() : 0;
    const std::size_t size_bytes = decoded.clip.size_bytes() + seen_bytes + kRecordBytes;
    if (!out_.push(std::move(decoded), size_bytes)) break;
  }
}

DecodedJob DecodeStage::read(std::size_t input) {
  DecodedJob decoded;
  Job& job = decoded.job;
  job.start_us = now_us();
  job.origin = inputs_.origin(input);
  const std::string path(inputs_.path(input));
  job.record.video = records::escape_file_name(path);
  job.record.file =
      records::ClipFile{.path = records::escape_file_name(records::absolute_name(path))};
  job.record.frames_wanted = options_.read.sampling.num_frames;
  for (std::size_t i = 0; i < options_.prompts.size(); ++i) {
    job.tasks.push_back(
        {.prompt = i, .adapter = adapter_of(options_, inputs_, input, options_.prompts[i])});
  }

  ErrorCode code = ErrorCode::kInternal;
  guard(job.record, "reading it", [&] {
    try {
      read_file(path, decoded);
    } catch (const Error& error) {
      code = error.code();
      throw;
    }
  });
  if (!job.record.error.has_value()) return decoded;
  job.is_cancelled = code == ErrorCode::kCancelled;
  job.is_skipped =
      job.origin == Origin::kFolderWalk && is_not_video(code) && !claims_to_be_video(path);
  // The file changed while it was read, so the id does not describe the bytes that were read.
  if (has_code(job.record, ErrorCode::kChanged)) job.record.id.clear();
  // For a file that could not be opened, the output may already contain the failure.
  const bool is_known = !job.content.empty();
  if (!is_known && !job.is_skipped && !job.is_cancelled) plan(job);
  return decoded;
}

// The clip's claims are kept, so its followers go on waiting.
DecodedJob DecodeStage::read_again(Job job) {
  DecodedJob decoded;
  decoded.job = std::move(job);
  records::Record& record = decoded.job.record;
  if (decoded.job.is_over()) return decoded;
  const std::string path = records::unescape_file_name(record.video);
  ErrorCode code = ErrorCode::kInternal;
  guard(record, "reading it", [&] {
    try {
      if (decoded.job.num_losses >= kMostLosses) {
        throw Error(ErrorCode::kUnavailable, path +
                                                 ": captioning it: " + std::to_string(kMostLosses) +
                                                 " devices were lost meanwhile; the same command "
                                                 "tries it again");
      }
      const OpenFile file = video::open_video(path);
      require_unchanged(file, record);
      read_frames(file, decoded);
    } catch (const Error& error) {
      code = error.code();
      throw;
    }
  });
  decoded.job.is_cancelled = code == ErrorCode::kCancelled;
  if (has_code(record, ErrorCode::kChanged)) record.id.clear();
  return decoded;
}

void DecodeStage::read_file(const std::filesystem::path& path, DecodedJob& decoded) {
  Job& job = decoded.job;
  const OpenFile file = video::open_video(path);
  // Checks a file without a video suffix before hashing all of it.
  if (job.origin == Origin::kFolderWalk && !claims_to_be_video(path.string())) {
    video::ReadOptions read = options_.read;
    read.cancelled = options_.stop;
    options_.require_video(file, read);
  }
  identify(file, job);
  plan(job);
  if (!job.tasks.empty()) read_frames(file, decoded);
}

void DecodeStage::read_frames(const OpenFile& file, DecodedJob& decoded) {
  Job& job = decoded.job;
  if (shared_.cache != nullptr) look_up(decoded);
  if (decoded.seen.has_value()) return;
  try {
    decode(file, decoded);
  } catch (const Error&) {
    require_unchanged(file, job.record);  // a video that is still being written looks damaged
    throw;
  }
  require_unchanged(file, job.record);
}

void DecodeStage::identify(const OpenFile& file, Job& job) {
  const Stopwatch watch;
  job.record.file->size_bytes = file.size_bytes();
  job.record.file->modified_ns = file.stamp().modified_ns;
  if (!options_.trust_times) job.record.id = file.sha256(options_.stop).hex();
  job.content = content_of(job.record);
  shared_.counters.identity_us += watch.elapsed_us();
}

// Keeps in job.tasks the captions that neither exist nor are in progress. The claim is made before
// the sink is searched, because a writer releases its claim only after writing the record.
void DecodeStage::plan(Job& job) {
  const records::ClipIdentity clip{.file = *job.record.file, .id = job.record.id};
  std::vector<Task> tasks;
  for (Task& task : job.tasks) {
    if (!job.content.empty()) {
      task.claim = claim_key(job.content, task);
      const Follower self{.clip = clip, .video = job.record.video, .origin = job.origin};
      if (!shared_.claims.take(task.claim, self)) {
        job.is_follower = true;
        continue;
      }
      task.is_claimed = true;
    }
    records::Earlier earlier =
        shared_.sink.find(clip, job.record.video,
                          records::caption_key(options_.prompts.at(task.prompt).name,
                                               adapter_name(options_, task.adapter)));
    switch (earlier.kind) {
      case records::Earlier::Kind::kNone:
        task.moved_from = std::move(earlier.moved_from);
        tasks.push_back(std::move(task));
        continue;
      case records::Earlier::Kind::kFinished:
        ++job.num_found;
        job.found_failed += earlier.status == records::Status::kFailed ? 1 : 0;
        break;
      case records::Earlier::Kind::kElsewhere:
        job.ready.push_back(*std::move(earlier.record));
        break;
    }
    if (!task.is_claimed) continue;
    for (const Follower& follower : shared_.claims.release(task.claim)) {
      job.waiting.push_back({.follower = follower, .prompt = task.prompt, .adapter = task.adapter});
    }
  }
  job.tasks = std::move(tasks);
}

void DecodeStage::look_up(DecodedJob& decoded) {
  Job& job = decoded.job;
  const Stopwatch watch;
  decoded.cache_key = shared_.cache->key_of(job.content);
  decoded.seen = shared_.cache->find(*decoded.cache_key);
  if (decoded.seen.has_value()) {
    if (job.num_losses == 0) ++num_seen_before_;
    job.record.frames_wanted = decoded.seen->frames_wanted;
    job.record.frames_used = decoded.seen->shape.num_frames;
    job.record.window_end_s = static_cast<double>(decoded.seen->duration_us) / 1e6;
    job.record.warnings = decoded.seen->warnings;
    job.suspicion = decoded.seen->suspicion;
  }
  shared_.counters.cache_us += watch.elapsed_us();
}

void DecodeStage::decode(const OpenFile& file, DecodedJob& decoded) {
  Job& job = decoded.job;
  const Timed timed(shared_.counters.decode_us, job.record.decode_ms);
  video::ReadOptions read = options_.read;
  read.cancelled = options_.stop;
  decoded.clip = options_.read_clip(file, read);
  if (decoded.clip.frames.empty()) {
    throw Error(ErrorCode::kNoFrames, file.path().string() + ": no frame could be decoded");
  }
  job.suspicion = suspicion_of_frames(decoded.clip.frames);
  job.record.frames_wanted = decoded.clip.frames_wanted;
  job.record.frames_used = std::ssize(decoded.clip.frames);
  job.record.window_end_s = static_cast<double>(decoded.clip.duration_us) / 1e6;
  job.record.warnings = warnings_of(read.sampling, decoded.clip);
}

// A file may have been renamed, linked or touched; only a change of its bytes is an error.
void DecodeStage::require_unchanged(const OpenFile& file, const records::Record& record) const {
  const FileStamp now = file.stamp_now();
  const bool has_times =
      now.size_bytes == record.file->size_bytes && now.modified_ns == record.file->modified_ns;
  if (now == file.stamp() && has_times) return;
  const bool is_same =
      options_.trust_times ? has_times : file.sha256(options_.stop).hex() == record.id;
  if (is_same) return;
  throw Error(ErrorCode::kChanged, file.path().string() +
                                       ": the file changed while it was read; the same command "
                                       "captions it when nobody writes it any more");
}

}  // namespace caption::pipeline
