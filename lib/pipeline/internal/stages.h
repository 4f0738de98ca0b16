// pipeline/internal/stages.h: what travels between the stages, and the stages.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backend/stream.h"
#include "base/byte_queue.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "pipeline/internal/spoken_text.h"
#include "pipeline/pipeline.h"
#include "pipeline/vision_cache.h"
#include "records/record.h"
#include "video/clip.h"

namespace caption::pipeline {

// One clip on its way, for one prompt or several. The record, of what its captions have in common,
// is filled in as it goes; with an error in it, the stages that follow pass it on as it is.
struct Job {
  records::Record record;
  std::vector<std::size_t> prompts;  // of Options::prompts
  std::int64_t start_us = 0;         // when decoding began
  bool is_skipped = false;           // no video, and nobody said so: counted, not recorded
  std::optional<Hash128> cache_key;  // where its vision tokens are to be kept
  // Between decode and vision: one of the two.
  video::Clip clip;
  std::optional<SeenClip> seen;
  std::vector<engine::Request> requests;  // between vision and engine, by prompts

  bool is_over() const { return is_skipped || record.error.has_value(); }
};

using JobQueue = ByteQueue<Job>;

void set_failed(records::Record& record, ErrorCode code, const std::string& message);

// Reads clips on threads of its own and closes `out` after the last. The destructor
// waits for them. `options.stop` ends it early.
class DecodeStage {
 public:
  // `cache` may be null.
  DecodeStage(const std::vector<Input>& inputs, const Options& options, VisionCache* cache,
              JobQueue& out);
  ~DecodeStage();
  std::int64_t busy_us() const { return busy_us_.load(); }
  std::int64_t cache_us() const { return cache_us_.load(); }
  std::int64_t num_seen_before() const { return num_seen_before_.load(); }

 private:
  void work();
  Job read(const Input& input);
  void look_up(const Input& input, Job& job);
  void decode(const Input& input, Job& job);

  const std::vector<Input>& inputs_;
  const Options& options_;
  VisionCache* const cache_;
  JobQueue& out_;
  std::atomic<std::size_t> next_input_{0};
  std::atomic<std::int64_t> busy_us_{0};
  std::atomic<std::int64_t> cache_us_{0};
  std::atomic<std::int64_t> num_seen_before_{0};
  std::atomic<int> num_working_;
  std::vector<std::thread> threads_;
};

// Turns frames into requests on one thread with its own pool, and closes `out` after the last.
class VisionStage {
 public:
  // `cache` may be null.
  VisionStage(model::CaptionModel& model, const Options& options, VisionCache* cache, JobQueue& in,
              JobQueue& out);
  ~VisionStage();
  std::int64_t busy_us() const { return busy_us_.load(); }

 private:
  void work();
  void prepare(Stream& stream, Job& job);
  SeenClip encode(Stream& stream, Job& job);

  model::CaptionModel& model_;
  const Options& options_;
  VisionCache* const cache_;
  JobQueue& in_;
  JobQueue& out_;
  std::atomic<std::int64_t> busy_us_{0};
  std::thread thread_;
};

// The last stage, on the caller's thread: submits requests, steps the engine, writes records.
class EngineStage {
 public:
  EngineStage(model::CaptionModel& model, const Options& options, records::RecordSink& sink,
              JobQueue& in, const std::vector<Input>& inputs);

  Ending run();
  const Progress& progress() const { return progress_; }
  engine::EngineStats engine_stats() const { return engine_.stats(); }

 private:
  // A caption that is being written.
  struct Caption {
    records::Record record;
    std::int64_t start_us = 0;
    std::unique_ptr<SpokenText> text;  // when somebody hears it, or a string may stop it
  };

  bool is_cancelled() const { return options_.stop->load(); }
  bool has_room() const;
  bool waits_for_batch() const;
  bool take_jobs();
  void take(Job job);
  void submit(engine::Request request, Caption caption);
  void finish(engine::Completion completion);
  void write(Caption& caption);
  void report();

  model::CaptionModel& model_;
  const Options& options_;
  records::RecordSink& sink_;
  JobQueue& in_;
  ThreadPool pool_;
  Stream stream_;
  engine::Engine engine_;
  std::unordered_map<engine::RequestId, Caption> running_;
  Progress progress_;
  Stopwatch watch_;
  bool batch_is_running_ = false;
  bool reader_gone_ = false;
  std::string last_warning_;
};

}  // namespace caption::pipeline
