// pipeline/internal/stages.h: the stages of the pipeline before the engine
// (internal/engine_stage.h) and the data passed between them.
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
#include <utility>
#include <vector>

#include "backend/stream.h"
#include "base/byte_queue.h"
#include "base/clock.h"
#include "base/open_file.h"
#include "drafts/nearest_texts.h"
#include "drafts/token_archive.h"
#include "engine/engine.h"
#include "pipeline/internal/claims.h"
#include "pipeline/internal/draft_prompts.h"
#include "pipeline/internal/record_errors.h"
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
  int num_losses = 0;             // devices that were lost while they worked on it
  bool is_skipped = false;  // not a video and not named by the user: counted, but gets no record
  bool is_cancelled = false;
  bool is_follower = false;  // waits for a caption of another file of the same content
  bool is_counted = false;   // counts in StageWork::clips_read, and in clips_encoded once it passed
  std::string suspicion;     // suspicion_of_frames()

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
  vision::PixelValues pixels;                       // no values: nothing is to be encoded
  bool is_for_draft = false;                        // whether the draft model reads the clip
  vision::PixelValues draft_pixels = {};            // the draft model's pixels
  std::shared_ptr<const Tensor> draft_tokens = {};  // encoded, or null
  double pass_share = 0;                            // CaptionModel::pass_share() of the pixels
  std::int64_t vision_us = 0;
  std::optional<drafts::Sketch> look = std::nullopt;

  bool is_waiting() const { return !pixels.values.empty() && !decoded.job.is_over(); }
};

// What the vision stage passes on.
struct EncodedJob {
  Job job;
  std::vector<engine::Request> requests;  // parallel to Job::tasks; empty if the job is over
  std::optional<drafts::Sketch> look = std::nullopt;  // the clip's look, with Shared::nearest
  // Those of the draft model, parallel to `requests`; empty for a clip that it does not read.
  std::vector<std::optional<engine::Request>> draft_prompts = {};
};

// What a job counts in a queue beside its frames or vision tokens. A record takes about 2 KB; a
// larger weight keeps the queue short when a hundred thousand clips fail at once.
inline constexpr std::size_t kRecordBytes = 16 << 10;

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

// Clips to be read again once the inputs are read: those that were under way on a device when it
// was lost, and those that waited in vain for a record of their content. Thread-safe.
class ReturnedJobs {
 public:
  // A clip that merely waited may not be to blame.
  enum class WasAt { kWork, kQueue };
  // Only the tasks that are left, and what identifies the clip, are needed. Jobs of one clip become
  // one.
  void add(Job job, WasAt was_at);
  std::vector<Job> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(jobs_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Job> jobs_;
};

// Objects shared by the stages.
struct Shared {
  const Options& options;
  records::RecordSink& sink;
  VisionCache* cache = nullptr;                             // may be null
  std::shared_ptr<drafts::TokenArchive> archive = nullptr;  // null without drafts from it
  std::shared_ptr<drafts::NearestTexts> nearest = nullptr;  // likewise
  std::atomic<int> num_replicas{1};                         // whose devices work
  std::atomic<int> num_vision_stages{0};                    // whose threads run
  // The least that a clip counts in a replica's queue before the engine, so that no replica hoards
  // clips that another has room for.
  std::size_t least_queued_bytes = 0;
  Claims claims = {};
  Breakdown breakdown = {};
  StageCounters counters = {};
  ReturnedJobs returned = {};
};

// A replica's device: works, or is lost; and its draft model: guesses, or rests. Thread-safe.
class ReplicaDevice {
 public:
  ReplicaDevice(std::string name, Shared& shared) : name_(std::move(name)), shared_(shared) {}

  // To be called with an Error(kUnavailable) that the device caused. The first one is logged, or,
  // if no other replica is left, becomes the run's breakdown.
  void lose(const Error& error);
  bool is_lost() const { return is_lost_.load(); }

  // drafts::Drafter::is_model_resting() after the engine's latest step.
  void set_draft_rests(bool rests) { draft_rests_.store(rests, std::memory_order_relaxed); }
  bool draft_rests() const { return draft_rests_.load(std::memory_order_relaxed); }

 private:
  const std::string name_;
  Shared& shared_;
  std::atomic<bool> is_lost_{false};
  std::atomic<bool> draft_rests_{false};
};

// Devices that may be lost while they work on a clip: it is tried once more.
inline constexpr int kMostLosses = 2;

// Reads clips on several threads and closes `out` after the last one. The destructor waits for the
// threads. `options.stop` ends the stage early.
class DecodeStage {
 public:
  // Starts the requested number of threads, or as many as the system allows, with a warning. Throws
  // Error(kOutOfMemory) when no thread can be started.
  DecodeStage(const InputList& inputs, Shared& shared, DecodedQueue& out);
  // Reads these clips again, in place of `inputs`. Those on which kMostLosses devices worked
  // when they were lost fail.
  DecodeStage(const InputList& inputs, std::vector<Job> again, Shared& shared, DecodedQueue& out);
  ~DecodeStage();
  std::int64_t num_seen_before() const { return num_seen_before_.load(); }

 private:
  void start_threads();
  void work();
  void read_inputs();
  DecodedJob read(std::size_t input);
  DecodedJob read_again(Job job);
  void read_file(const std::filesystem::path& path, DecodedJob& decoded);
  // Reads the frames of a clip with tasks, or finds its vision tokens in the cache.
  void read_frames(const OpenFile& file, DecodedJob& decoded);
  void identify(const OpenFile& file, Job& job);
  void plan(Job& job);
  void look_up(DecodedJob& decoded);
  void decode(const OpenFile& file, DecodedJob& decoded);
  void require_unchanged(const OpenFile& file, const records::Record& record) const;

  const InputList& inputs_;
  Shared& shared_;
  const Options& options_;
  DecodedQueue& out_;
  std::optional<std::vector<Job>> again_;
  std::atomic<std::size_t> next_input_{0};
  std::atomic<std::int64_t> num_seen_before_{0};
  std::atomic<int> num_working_;
  std::vector<std::thread> threads_;
};

// Converts frames to requests on one thread with a separate thread pool, and closes `out` after the
// last one. Several stages may take from one queue. Clips that wait in the queue are encoded
// together as long as one pass over the tower takes them all; the stage does not wait for a further
// clip to arrive.
class VisionStage {
 public:
  // `examples` are the videos of the examples in order, with frames that nothing else needs.
  VisionStage(const Replica& replica, Shared& shared, ReplicaDevice& device,
              std::vector<ExampleClip> examples, DecodedQueue& in, EncodedQueue& out);
  ~VisionStage();

  // Starts the thread, which ends when the queue it takes from is closed and empty. Throws
  // Error(kOutOfMemory) when that is impossible.
  void start();
  // Waits for the thread's end.
  void wait();

 private:
  void work();
  void work_on_batches();
  // Hands the clips that were not passed on to Shared::returned.
  void give_back_all(ReturnedJobs::WasAt was_at);
  void take_batch();
  // Preprocesses a clip; nullopt without one, and for a device that is lost, which returns it.
  std::optional<PixelJob> take(std::optional<DecodedJob> decoded);
  // Whether the draft model shall read the next clip: while it rests, one of kClipsPerTrial, by
  // which it can find that it pays again.
  bool is_next_for_draft();
  void preprocess(PixelJob& clip);
  void encode(std::span<PixelJob> batch);
  void encode_together(std::span<PixelJob* const> clips);
  bool pass_on(PixelJob& clip);
  std::vector<engine::Request> make_requests(PixelJob& clip);
  std::vector<std::optional<engine::Request>> make_draft_prompts(const PixelJob& clip) const;
  // Encodes the examples' videos and frees their frames.
  void encode_examples();
  // The vision tokens of an example's video, from the vision cache or encoded.
  engine::SharedVision encode_example(const ExampleClip& example);
  void store(const Hash128& key, SeenClip& seen);
  drafts::Sketch look_of(const Tensor& tokens);
  sampling::SamplingParams sampling_of(const Job& job, const std::string& prompt) const;

  model::CaptionModel& model_;
  Shared& shared_;
  const Options& options_;
  ReplicaDevice& device_;
  DecodedQueue& in_;
  EncodedQueue& out_;
  ThreadPool pool_;
  Stream stream_;
  std::optional<DraftPrompts> draft_prompts_;   // set if there is a draft model
  std::int64_t num_at_rest_ = 0;                // clips taken while it rested
  std::vector<PixelJob> batch_;                 // not passed on yet
  std::optional<PixelJob> next_;                // taken from the queue; begins the next batch
  std::vector<ExampleClip> waiting_examples_;   // kept until the first clip is encoded
  std::vector<engine::SharedVision> examples_;  // those of the examples with a video, in order
  std::thread thread_;
};

}  // namespace caption::pipeline
