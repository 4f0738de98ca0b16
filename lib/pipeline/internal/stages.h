// pipeline/internal/stages.h: what travels between the stages, and the stages.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backend/stream.h"
#include "base/byte_queue.h"
#include "base/clock.h"
#include "base/open_file.h"
#include "engine/engine.h"
#include "pipeline/internal/claims.h"
#include "pipeline/internal/spoken_text.h"
#include "pipeline/pipeline.h"
#include "pipeline/vision_cache.h"
#include "records/record.h"
#include "video/clip.h"

namespace caption::pipeline {

// A caption that a clip is to be given.
struct Task {
  std::size_t prompt = 0;  // of Options::prompts
  Hash128 claim = {};      // to be released when its record is written
  bool is_claimed = false;
  std::string moved_from = {};  // Record::moved_from
};

// A clip that waited for a caption which turned out to be there.
struct Waiting {
  Follower follower;
  std::size_t prompt = 0;
};

// One clip on its way, for one prompt or several. The record, of what its captions have in common,
// is filled in as it goes; with an error in it, the stages that follow pass it on as it is.
struct Job {
  records::Record record;
  Origin origin = Origin::kNamed;
  std::string content;      // stands for the clip's bytes: see content_of()
  std::vector<Task> tasks;  // the captions to be made
  // Found under another name: to be written as they are. Then those of `waiting` are looked up.
  std::vector<records::Record> ready;
  std::vector<Waiting> waiting;
  std::int64_t num_found = 0;     // captions that the sink holds already
  std::int64_t found_failed = 0;  // of these, records of failures
  std::int64_t start_us = 0;      // when decoding began
  bool is_skipped = false;        // no video, and nobody said so: counted, not recorded
  bool is_cancelled = false;
  std::optional<Hash128> cache_key;  // where its vision tokens are to be kept
  // Between decode and vision: one of the two.
  video::Clip clip;
  std::optional<SeenClip> seen;
  std::string suspicion;                  // suspicion_of_frames()
  std::vector<engine::Request> requests;  // between vision and engine, by tasks

  // Nothing is left to compute.
  bool is_over() const { return is_skipped || record.error.has_value() || tasks.empty(); }
};

using JobQueue = ByteQueue<Job>;

void set_failed(records::Record& record, ErrorCode code, const std::string& message);

// Runs work(). What it throws becomes the record's error: `who` names the clip and what was being
// done, and stands before messages that do not begin with the clip's path.
void guard(records::Record& record, const std::string& who, const std::function<void()>& work);

// SHA-256, or place, size and time where it is unknown; empty when neither is.
std::string content_of(const records::Record& record);

// Throws Error(kBadModel) when a file that the model may still read was changed: what it computes
// is no longer what its hash says.
void require_same_model(const model::CaptionModel& model);

// The first exception that a thread of a stage could not put into a record. Thread-safe.
class Breakdown {
 public:
  void set(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_ == nullptr) error_ = std::move(error);
  }
  void rethrow() const {
    const std::lock_guard lock(mutex_);
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  mutable std::mutex mutex_;
  std::exception_ptr error_;
};

// What the stages in front of the engine have done so far: StageWork, from several threads.
struct StageCounters {
  std::atomic<std::int64_t> decode_us{0};
  std::atomic<std::int64_t> identity_us{0};
  std::atomic<std::int64_t> cache_us{0};
  std::atomic<std::int64_t> vision_us{0};
  std::atomic<std::int64_t> clips_looked_at{0};
  std::atomic<std::int64_t> clips_read{0};
  std::atomic<std::int64_t> clips_encoded{0};
};

// What the stages share.
struct Shared {
  const Options& options;
  records::RecordSink& sink;
  VisionCache* cache = nullptr;  // may be null
  Claims claims = {};
  Breakdown breakdown = {};
  StageCounters counters = {};
};

// Reads clips on threads of its own and closes `out` after the last. The destructor
// waits for them. `options.stop` ends it early.
class DecodeStage {
 public:
  // Starts as many threads as the system gives, with a warning when they are fewer than wanted.
  // Throws Error(kOutOfMemory) when there is none.
  DecodeStage(const InputList& inputs, Shared& shared, JobQueue& out);
  ~DecodeStage();
  std::int64_t num_seen_before() const { return num_seen_before_.load(); }

 private:
  void work();
  void read_inputs();
  Job read(std::size_t input);
  void read_file(const std::filesystem::path& path, Job& job);
  void identify(const OpenFile& file, Job& job);
  void plan(Job& job);
  void look_up(Job& job);
  void decode(const OpenFile& file, Job& job);
  void require_unchanged(const OpenFile& file, const records::Record& record) const;

  const InputList& inputs_;
  Shared& shared_;
  const Options& options_;
  JobQueue& out_;
  std::atomic<std::size_t> next_input_{0};
  std::atomic<std::int64_t> num_seen_before_{0};
  std::atomic<int> num_working_;
  std::vector<std::thread> threads_;
};

// Turns frames into requests on one thread with its own pool, and closes `out` after the last.
class VisionStage {
 public:
  // Throws Error(kOutOfMemory) when its threads cannot be started.
  VisionStage(model::CaptionModel& model, Shared& shared, JobQueue& in, JobQueue& out);
  ~VisionStage();

 private:
  void work();
  void prepare(Job& job);
  SeenClip encode(Job& job);
  sampling::SamplingParams sampling_of(const Job& job, const std::string& prompt) const;

  model::CaptionModel& model_;
  Shared& shared_;
  const Options& options_;
  JobQueue& in_;
  JobQueue& out_;
  ThreadPool pool_;
  Stream stream_;
  std::thread thread_;
};

// The last stage, on the caller's thread: submits requests, steps the engine, writes records.
class EngineStage {
 public:
  EngineStage(model::CaptionModel& model, Shared& shared, JobQueue& in, const InputList& inputs);

  Ending run();
  const Progress& progress() const { return progress_; }
  engine::EngineStats engine_stats() const { return engine_.stats(); }

 private:
  // A caption that is being written.
  struct Caption {
    records::Record record;
    Task task = {};
    std::string suspicion = {};  // of its frames
    Origin origin = Origin::kNamed;
    bool is_skipped = false;
    std::int64_t start_us = 0;
    double engine_ms = 0;                        // engine_share_ms_ when the engine took it
    std::unique_ptr<SpokenText> text = nullptr;  // when somebody hears it, or a string may stop it
  };

  // Whether this run made the caption that a record holds, or took it over.
  enum class Origination { kMade, kTakenOver };

  bool is_cancelled() const { return options_.stop->load(); }
  bool has_room() const;
  bool waits_for_batch() const;
  bool take_jobs();
  void take(Job job);
  void submit(engine::Request request, Caption caption);
  void finish(engine::Completion completion);
  // Writes the caption's record, or counts the file as skipped; then those of equal clips.
  void end(Caption& caption);
  void copy(const Caption& caption, const Follower& follower);
  void write(const records::Record& record, Origination origination);
  void count(const records::Record& record, Origination origination);
  void warn(const records::Record& record);
  std::vector<engine::Completion> step();
  void measure();
  void report();

  model::CaptionModel& model_;
  Shared& shared_;
  const Options& options_;
  JobQueue& in_;
  ThreadPool pool_;
  Stream stream_;
  engine::Engine engine_;
  std::unordered_map<engine::RequestId, Caption> running_;
  Progress progress_;
  Stopwatch watch_;
  // Each step's time divided by the requests that the engine held: what a request that was there
  // from the begin would have taken of it. Shares of all requests sum to the engine's time.
  double engine_share_ms_ = 0;
  std::int64_t engine_output_tokens_ = 0;  // of captions that the engine ended, all beams
  std::int64_t num_ended_by_engine_ = 0;
  bool batch_is_running_ = false;
  bool reader_gone_ = false;
  std::string last_warning_;  // with the clip's name
  std::int64_t num_warnings_ = 0;
};

}  // namespace caption::pipeline
