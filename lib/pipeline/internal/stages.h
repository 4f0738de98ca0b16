// pipeline/internal/stages.h: what travels between the stages, and the two stages with threads of
// their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/byte_queue.h"
#include "engine/engine.h"
#include "pipeline/pipeline.h"
#include "records/record.h"
#include "video/clip.h"

namespace caption::pipeline {

// One clip on its way. The record is filled in as it goes; with an error in it, the stages that
// follow pass it on as it is.
struct Job {
  records::Record record;
  std::int64_t start_us = 0;               // when decoding began
  bool is_skipped = false;                 // no video, and nobody said so: counted, not recorded
  video::Clip clip;                        // between decode and vision
  std::optional<engine::Request> request;  // between vision and engine

  bool is_over() const { return is_skipped || record.error.has_value(); }
};

using JobQueue = ByteQueue<Job>;

void set_failed(records::Record& record, ErrorCode code, const std::string& message);

// Reads clips on threads of its own and closes `out` after the last. The destructor
// waits for them. `options.stop` ends it early.
class DecodeStage {
 public:
  DecodeStage(const std::vector<Input>& inputs, const Options& options, JobQueue& out);
  ~DecodeStage();
  std::int64_t busy_us() const { return busy_us_.load(); }

 private:
  void work();
  Job read(const Input& input);

  const std::vector<Input>& inputs_;
  const Options& options_;
  JobQueue& out_;
  std::atomic<std::size_t> next_input_{0};
  std::atomic<std::int64_t> busy_us_{0};
  std::atomic<int> num_working_;
  std::vector<std::thread> threads_;
};

// Turns frames into requests on one thread with its own pool, and closes `out` after the last.
class VisionStage {
 public:
  VisionStage(model::CaptionModel& model, const Options& options, JobQueue& in, JobQueue& out);
  ~VisionStage();
  std::int64_t busy_us() const { return busy_us_.load(); }

 private:
  void work();
  void encode(Stream& stream, Job& job);

  model::CaptionModel& model_;
  const Options& options_;
  JobQueue& in_;
  JobQueue& out_;
  std::atomic<std::int64_t> busy_us_{0};
  std::thread thread_;
};

}  // namespace caption::pipeline
