// pipeline/internal/recorder.h: writes the records of a run and counts its progress, for all
// replicas.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "pipeline/internal/stages.h"
#include "pipeline/internal/streamed_text.h"
#include "pipeline/pipeline.h"

namespace caption::pipeline {

// A caption in progress.
struct Caption {
  records::Record record;
  Task task = {};
  std::string suspicion = {};  // suspicion_of_frames() of its frames
  Origin origin = Origin::kNamed;
  bool is_skipped = false;
  int num_losses = 0;  // as Job::num_losses
  std::int64_t start_us = 0;
  double engine_ms = 0;  // EngineStage::engine_share_ms_ when the engine accepted the request
  // Null unless the text is streamed or stop strings are set.
  std::unique_ptr<StreamedText> text = nullptr;
};

// What all engines did: sums, and means weighted by their steps; pages count together.
engine::EngineStats combined(const std::vector<engine::EngineStats>& engines);

// Thread-safe. `model` is the replica's whose caption it is: Error(kBadModel) is thrown when one of
// its files was changed. Errors of the sink pass through.
class Recorder {
 public:
  Recorder(Shared& shared, const InputList& inputs, std::size_t num_replicas);

  // Counts what the output has of a clip and writes its records that are ready.
  void begin(const model::CaptionModel& model, const Job& job);
  // Writes the records of the clips that waited while the captions of `job` were looked up in the
  // sink. A clip of which the sink has none, as it gives no failed record to another file, is added
  // to Shared::returned.
  void copy_to_waiting(const model::CaptionModel& model, const Job& job);
  // Writes the caption's record, or counts the file as skipped; then does the same for its
  // followers.
  void end(const model::CaptionModel& model, Caption& caption);
  // The same for a caption that an engine finished, with or without an error; `num_tokens` are its
  // output tokens over all beams.
  void end_made(const model::CaptionModel& model, Caption& caption, std::int64_t num_tokens);
  // Throws Error(kBadModel) unless a caption was made before, by this run or an earlier one.
  void require_sound_model(const model::CaptionModel& model, const records::Record& record,
                           const Error& error);
  // Calls Options::on_request and on_draft_inputs.
  void show(const records::Record& record, engine::Request& request, const DraftInputs& drafts);
  // Notes what a replica's engine has done; report() reports progress, too.
  void note(std::size_t replica, const engine::Engine& engine);
  void report(std::size_t replica, const engine::Engine& engine);

  bool reader_is_gone() const { return reader_gone_.load(); }
  Progress progress();
  engine::EngineStats engine_stats();

 private:
  // Whether this run made the caption of a record or took it from an earlier record.
  enum class Origination { kMade, kTakenOver };

  // The functions below require mutex_.
  void end_locked(const model::CaptionModel& model, Caption& caption);
  void copy(const model::CaptionModel& model, const Caption& caption, const Follower& follower);
  records::Earlier take_over(const model::CaptionModel& model, const Follower& follower,
                             std::string_view key);
  void write(const model::CaptionModel& model, const records::Record& record,
             Origination origination);
  void count(const records::Record& record, Origination origination);
  void warn(const records::Record& record);
  void measure();
  void note_locked(std::size_t replica, const engine::Engine& engine);
  void report();

  Shared& shared_;
  const Options& options_;
  std::mutex mutex_;
  Progress progress_;
  Stopwatch watch_;
  std::vector<engine::EngineStats> engines_;  // one per replica
  std::vector<std::int64_t> num_unfinished_;  // requests per replica
  // Tokens of the captions that engines finished, over all beams.
  std::int64_t engine_output_tokens_ = 0;
  std::int64_t num_ended_by_engine_ = 0;
  bool has_captioned_ = false;  // an engine has finished a caption without an error
  std::atomic<bool> reader_gone_{false};
  std::string last_warning_;  // with the clip's name
  std::int64_t num_warnings_ = 0;
};

}  // namespace caption::pipeline
