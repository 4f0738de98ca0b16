#include <sys/stat.h>

#include <array>
#include <new>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "pipeline/internal/stages.h"
#include "records/file_name.h"

namespace caption::pipeline {
namespace {

// What a job without frames weighs in a queue: its record.
constexpr std::size_t kRecordBytes = 1024;

bool is_not_video(ErrorCode code) {
  return code == ErrorCode::kNotVideo || code == ErrorCode::kNoVideoStream;
}

// Changes when the file does; all zero when there is none.
std::array<std::int64_t, 5> stamp_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {static_cast<std::int64_t>(status.st_dev), static_cast<std::int64_t>(status.st_ino),
          status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

}  // namespace

void set_failed(records::Record& record, ErrorCode code, const std::string& message) {
  record.status = records::Status::kFailed;
  record.caption.clear();
  record.finish_reason.clear();
  // Messages hold file names, which need not be text.
  record.error = {.code = std::string(error_code_name(code)),
                  .message = records::escape_file_name(message)};
}

DecodeStage::DecodeStage(const std::vector<Input>& inputs, const Options& options,
                         VisionCache* cache, JobQueue& out)
    : inputs_(inputs),
      options_(options),
      cache_(cache),
      out_(out),
      num_working_(options.threads.decode) {
  threads_.reserve(static_cast<std::size_t>(options.threads.decode));
  for (int i = 0; i < options.threads.decode; ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

DecodeStage::~DecodeStage() {
  for (std::thread& thread : threads_) thread.join();
}

void DecodeStage::work() {
  while (!options_.stop->load()) {
    const std::size_t i = next_input_.fetch_add(1);
    if (i >= inputs_.size()) break;
    Job job = read(inputs_[i]);
    if (job.record.error && job.record.error->code == error_code_name(ErrorCode::kCancelled)) break;
    const std::size_t seen_bytes = job.seen.has_value() ? job.seen->tokens.size_bytes() : 0;
    const std::size_t size_bytes = job.clip.size_bytes() + seen_bytes + kRecordBytes;
    if (!out_.push(std::move(job), size_bytes)) break;
  }
  if (num_working_.fetch_sub(1) == 1) out_.close();
}

Job DecodeStage::read(const Input& input) {
  Job job;
  job.start_us = now_us();
  job.prompts = input.prompts;
  if (job.prompts.empty()) {
    job.prompts.resize(options_.prompts.size());
    std::iota(job.prompts.begin(), job.prompts.end(), std::size_t{0});
  }
  job.record.video = records::escape_file_name(input.path);
  job.record.frames_wanted = options_.read.sampling.num_frames;
  if (cache_ == nullptr) {
    decode(input, job);
    return job;
  }
  const auto stamp = stamp_of(input.path);
  look_up(input, job);
  if (job.seen.has_value()) return job;
  decode(input, job);
  // Of a film that is still being written, the key and the frames may be of different bytes.
  if (stamp_of(input.path) != stamp) job.cache_key.reset();
  return job;
}

// A file that cannot be read here is left to decode(), which says what is wrong with it.
void DecodeStage::look_up(const Input& input, Job& job) {
  const Stopwatch watch;
  try {
    job.cache_key = cache_->key_of(input.path, options_.stop);
    job.seen = cache_->find(*job.cache_key);
  } catch (const std::exception&) {
    job.cache_key.reset();
  }
  if (job.seen.has_value()) {
    ++num_seen_before_;
    job.record.frames_wanted = job.seen->frames_wanted;
    job.record.frames_used = job.seen->frames_used;
    job.record.window_end_s = static_cast<double>(job.seen->duration_us) / 1e6;
    job.record.warnings = job.seen->warnings;
  }
  cache_us_ += watch.elapsed_us();
}

void DecodeStage::decode(const Input& input, Job& job) {
  const Stopwatch watch;
  try {
    video::ReadOptions read = options_.read;
    read.cancelled = options_.stop;
    job.clip = options_.read_clip(input.path, read);
    if (job.clip.frames.empty()) {
      throw Error(ErrorCode::kNoFrames, input.path + ": no frame could be decoded");
    }
    job.record.frames_wanted = job.clip.frames_wanted;
    job.record.frames_used = std::ssize(job.clip.frames);
    job.record.window_end_s = static_cast<double>(job.clip.duration_us) / 1e6;
    for (const std::string& warning : job.clip.warnings) {
      job.record.warnings.push_back(records::escape_file_name(warning));
    }
  } catch (const Error& error) {
    job.is_skipped = input.origin == Origin::kFolderWalk && is_not_video(error.code()) &&
                     !claims_to_be_video(input.path);
    set_failed(job.record, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    set_failed(job.record, ErrorCode::kOutOfMemory,
               input.path + ": not enough memory for its frames; lower --max-pixels or --threads");
  } catch (const std::exception& error) {
    set_failed(job.record, ErrorCode::kInternal, input.path + ": " + error.what());
  }
  job.record.decode_ms = watch.elapsed_ms();
  busy_us_ += watch.elapsed_us();
}

}  // namespace caption::pipeline
