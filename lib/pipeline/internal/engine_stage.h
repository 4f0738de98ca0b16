// pipeline/internal/engine_stage.h: the last stage of a replica.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend/stream.h"
#include "drafts/drafter.h"
#include "engine/draft_decoder.h"
#include "engine/engine.h"
#include "engine/self_draft.h"
#include "pipeline/internal/recorder.h"
#include "pipeline/internal/stages.h"

namespace caption::pipeline {

// Submits requests, steps the engine, passes captions to the recorder. Used by one thread at a
// time.
class EngineStage {
 public:
  // `number` is the replica's, from 0 on. Throws as engine::Engine.
  EngineStage(const Replica& replica, const engine::EngineOptions& options, std::size_t number,
              Shared& shared, ReplicaDevice& device, Recorder& recorder, EncodedQueue& in);

  // Returns when `in` is closed and everything is captioned, when the run is cancelled or nobody
  // reads its records, or when the device is lost: then all clips under way are in
  // Shared::returned.
  void run();

  drafts::DraftCounts draft_counts() const {
    return drafter_.has_value() ? drafter_->counts() : drafts::DraftCounts{};
  }
  drafts::DraftedSteps drafted_steps() const {
    return drafter_.has_value() ? drafter_->steps() : drafts::DraftedSteps{};
  }
  // nullopt without a self-draft, or when its layers are known.
  std::optional<drafts::UnfinishedSearch> unfinished_search() const {
    return self_draft_.has_value() ? self_draft_->unfinished_search() : std::nullopt;
  }

 private:
  bool is_cancelled() const { return options_.stop->load(); }
  bool goes_on() const;
  bool has_room() const;
  bool waits_for_batch() const;
  bool take_jobs();
  void take(EncodedJob encoded);
  void submit(engine::Request request, Caption caption, DraftInputs drafts);
  void begin_draft(engine::RequestId id, engine::Request prompt);
  void open_draft(const Replica& replica, const engine::EngineOptions& options);
  drafts::DraftModel* draft_model();  // null: none
  void finish(engine::Completion completion);
  engine::EngineOptions with_drafts(const Replica& replica, engine::EngineOptions options);
  std::vector<engine::Completion> step();
  void give_back_all();

  model::CaptionModel& model_;
  Shared& shared_;
  const Options& options_;
  ReplicaDevice& device_;
  Recorder& recorder_;
  EncodedQueue& in_;
  const std::size_t number_;
  ThreadPool pool_;
  Stream stream_;
  std::optional<Stream> draft_stream_;
  std::optional<engine::DraftDecoder> draft_decoder_;
  std::optional<engine::SelfDraft> self_draft_;
  std::optional<drafts::Drafter> drafter_;
  engine::Engine engine_;
  std::unordered_map<engine::RequestId, Caption> running_;
  // Sum over the steps of step time / number of unfinished requests: the share of a request present
  // from the beginning. The shares of all requests add up to the engine's time.
  double engine_share_ms_ = 0;
  bool batch_is_running_ = false;
};

}  // namespace caption::pipeline
