// pipeline/internal/stages.h: the stages of the pipeline and the data passed between them.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
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
#include "pipeline/internal/record_errors.h"
#include "pipeline/internal/streamed_text.h"
#include "pipeline/pipeline.h"
#include "pipeline/vision_cache.h"
#include "records/record.h"
#include "video/clip.h"
#include "vision/preprocess.h"

namespace caption::pipeline {

// A caption to be made for a clip.
struct Task {
  std::size_t prompt = 0;  // index into Options::prompts
  AdapterIndex adapter = kNoAdapter;
  Hash128 claim = {};  // key to be released when its record is written
  bool is_claimed = false;
  std::string moved_from = {};  // Record::moved_from
};

// A clip that waited for a caption whose record now exists.
struct Waiting {
  Follower follower;
  std::size_t prompt = 0;
  AdapterIndex adapter = kNoAdapter;
};

// One clip in the pipeline, with one or several prompts. The record holds what its captions have in
// common and is completed on the way. Once it has an error, later stages pass the job on unchanged.
struct Job {
  records::Record record;
  Origin origin = Origin::kNamed;
  std::string content;      // identifies the clip's bytes, as content_of()
  std::vector<Task> tasks;  // captions to be made
  // Records found under another name, written unchanged. Then the clips in `waiting` are looked up.
  std::vector<records::Record> ready;
  std::vector<Waiting> waiting;
  std::int64_t num_found = 0;     // number of captions that the sink already has
  std::int64_t found_failed = 0;  // part of num_found: records of failures
  std::int64_t start_us = 0;      // when decoding began
  bool is_skipped = false;  // not a video and not named by the user: counted, but gets no record
  bool is_cancelled = false;
  std::string suspicion;  // suspicion_of_frames()

  // Whether no caption is left to compute.
  bool is_over() const { return is_skipped || record.error.has_value() || tasks.empty(); }
};

// What the decode stage passes on. Unless the job is over, either `clip` or `seen` is set.
struct DecodedJob {
  Job job;
  video::Clip clip;
  std::optional<SeenClip> seen;      // found in the vision cache
  std::optional<Hash128> cache_key;  // key under which its vision tokens will be stored
};

// A job in the vision stage. `seen` is complete unless the job is over or `pixels` are left to be
// encoded.
struct PixelJob {
  DecodedJob decoded;
  SeenClip seen;
  vision::PixelValues pixels;  // without values: nothing is to be encoded
  double pass_share = 0;       // CaptionModel::pass_share() of the pixels
  std::int64_t vision_us = 0;

  bool is_waiting() const { return !pixels.values.empty() && !decoded.job.is_over(); }
};

// What the vision stage passes on.
struct EncodedJob {
  Job job;
  std::vector<engine::Request> requests;  // parallel to Job::tasks; empty if the job is over
};

using DecodedQueue = ByteQueue<DecodedJob>;
using EncodedQueue = ByteQueue<EncodedJob>;

// Sets the names of prompt and adapter in the record of a caption.
void set_names(records::Record& record, const Options& options, std::size_t prompt,
               AdapterIndex adapter);

// The warnings of a clip's record about its frames.
std::vector<std::string> warnings_of(const video::SamplingOptions& sampling,
                                     const video::Clip& clip);

// Returns the SHA-256, or place, size and time where it is unknown; empty when neither is known.
std::string content_of(const records::Record& record);

// Throws Error(kBadModel) when a file that the model may still read was changed, because the
// model's hash would no longer describe its results.
void require_same_model(const model::CaptionModel& model);

// The first exception of a stage's thread that does not belong to a record. Thread-safe.
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

// Work done so far by the decode and vision stages, updated by several threads; see StageWork.
struct StageCounters {
  std::atomic<std::int64_t> decode_us{0};
  std::atomic<std::int64_t> identity_us{0};
  std::atomic<std::int64_t> cache_us{0};
  std::atomic<std::int64_t> vision_us{0};
  std::atomic<std::int64_t> clips_looked_at{0};
  std::atomic<std::int64_t> clips_read{0};
  std::atomic<std::int64_t> clips_encoded{0};
};

// Objects shared by the stages.
struct Shared {
  const Options& options;
  records::RecordSink& sink;
  VisionCache* cache = nullptr;  // may be null
  Claims claims = {};
  Breakdown breakdown = {};
  StageCounters counters = {};
};

// Reads clips on several threads and closes `out` after the last one. The destructor waits for the
// threads. `options.stop` ends the stage early.
class DecodeStage {
 public:
  // Starts the requested number of threads, or as many as the system allows, with a warning. Throws
  // Error(kOutOfMemory) when no thread can be started.
  DecodeStage(const InputList& inputs, Shared& shared, DecodedQueue& out);
  ~DecodeStage();
  std::int64_t num_seen_before() const { return num_seen_before_.load(); }

 private:
  void work();
  void read_inputs();
  DecodedJob read(std::size_t input);
  void read_file(const std::filesystem::path& path, DecodedJob& decoded);
  void identify(const OpenFile& file, Job& job);
  void plan(Job& job);
  void look_up(DecodedJob& decoded);
  void decode(const OpenFile& file, DecodedJob& decoded);
  void require_unchanged(const OpenFile& file, const records::Record& record) const;

  const InputList& inputs_;
  Shared& shared_;
  const Options& options_;
  DecodedQueue& out_;
  std::atomic<std::size_t> next_input_{0};
  std::atomic<std::int64_t> num_seen_before_{0};
  std::atomic<int> num_working_;
  std::vector<std::thread> threads_;
};

// Converts frames to requests on one thread with a separate thread pool, and closes `out` after the
// last one. Clips that wait in the queue are encoded together as long as one pass over the tower
// takes them all; the stage does not wait for a further clip to arrive.
class VisionStage {
 public:
  // Throws Error(kOutOfMemory) when its threads cannot be started.
  // `examples` are the videos of the examples in order, with frames that nothing else needs.
  VisionStage(model::CaptionModel& model, Shared& shared, std::vector<ExampleClip> examples,
              DecodedQueue& in, EncodedQueue& out);
  ~VisionStage();

 private:
  void work();
  std::vector<PixelJob> take_batch();
  std::optional<PixelJob> take(std::optional<DecodedJob> decoded);
  void preprocess(PixelJob& clip);
  void encode(std::span<PixelJob> batch);
  void encode_together(std::span<PixelJob* const> clips);
  bool pass_on(PixelJob clip);
  std::vector<engine::Request> make_requests(PixelJob& clip);
  // Encodes the examples' videos and frees their frames.
  void encode_examples();
  // The vision tokens of an example's video, from the vision cache or encoded.
  engine::SharedVision encode_example(const ExampleClip& example);
  void store(const Hash128& key, SeenClip& seen);
  sampling::SamplingParams sampling_of(const Job& job, const std::string& prompt) const;

  model::CaptionModel& model_;
  Shared& shared_;
  const Options& options_;
  DecodedQueue& in_;
  EncodedQueue& out_;
  ThreadPool pool_;
  Stream stream_;
  std::optional<PixelJob> next_;                // taken from the queue; begins the next batch
  std::vector<ExampleClip> waiting_examples_;   // until the first clip is encoded
  std::vector<engine::SharedVision> examples_;  // of the examples with a video, in order
  std::thread thread_;
};

// Last stage, on the caller's thread: submits requests, steps the engine, writes records.
class EngineStage {
 public:
  EngineStage(model::CaptionModel& model, Shared& shared, EncodedQueue& in,
              const InputList& inputs);

  Ending run();
  const Progress& progress() const { return progress_; }
  engine::EngineStats engine_stats() const { return engine_.stats(); }

 private:
  // A caption in progress.
  struct Caption {
    records::Record record;
    Task task = {};
    std::string suspicion = {};  // suspicion_of_frames() of its frames
    Origin origin = Origin::kNamed;
    bool is_skipped = false;
    std::int64_t start_us = 0;
    double engine_ms = 0;  // value of engine_share_ms_ when the engine accepted the request
    // Null unless the text is streamed or stop strings are set.
    std::unique_ptr<StreamedText> text = nullptr;
  };

  // Whether this run made the caption of a record or took it from an earlier record.
  enum class Origination { kMade, kTakenOver };

  bool is_cancelled() const { return options_.stop->load(); }
  bool has_room() const;
  bool waits_for_batch() const;
  bool take_jobs();
  void take(EncodedJob encoded);
  void submit(engine::Request request, Caption caption);
  void finish(engine::Completion completion);
  // Throws Error(kBadModel) unless a caption was made before, by this run or an earlier one.
  void require_sound_model(const records::Record& record, const Error& error) const;
  // Writes the caption's record, or counts the file as skipped; then does the same for its
  // followers.
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
  EncodedQueue& in_;
  ThreadPool pool_;
  Stream stream_;
  engine::Engine engine_;
  std::unordered_map<engine::RequestId, Caption> running_;
  Progress progress_;
  Stopwatch watch_;
  // Sum over the steps of step time / number of unfinished requests: the share of a request present
  // from the beginning. The shares of all requests add up to the engine's time.
  double engine_share_ms_ = 0;
  // Tokens of the captions that the engine finished, over all beams.
  std::int64_t engine_output_tokens_ = 0;
  std::int64_t num_ended_by_engine_ = 0;
  bool has_captioned_ = false;  // the engine has finished a caption without an error
  bool batch_is_running_ = false;
  bool reader_gone_ = false;
  std::string last_warning_;  // with the clip's name
  std::int64_t num_warnings_ = 0;
};

}  // namespace caption::pipeline
