// pipeline/pipeline.h: videos in, records out.
//
//   decode threads ──Clip──▶ [bytes] ──▶ vision thread ──VisionTokens──▶ [bytes] ──▶ engine ──▶
//   sink
//
// Each arrow is a ByteQueue: a stage that is ahead waits, however large single clips are. A clip's
// record travels with its frames, its vision tokens and its requests, so a caption cannot land on
// another video or another prompt, whatever order requests finish in. Records are written as
// captions finish. Several prompts share the clip's decoding, its vision tokens and, with the
// prefix cache, their KV pages.
//
// With a cache folder (EngineOptions::disk), the vision tokens of a clip that was seen before are
// taken from there: it is neither decoded nor encoded.
//
// A clip that fails gives a record with status `failed` for each of its prompts; the others go on.
// In particular a video without a decodable frame never reaches the model. What breaks the run
// itself (the output cannot be written, the model breaks) is thrown after the stages have stopped.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "model/caption_model.h"
#include "pipeline/find_videos.h"
#include "pipeline/prompts.h"
#include "pipeline/threads.h"
#include "records/sink.h"
#include "sampling/sampling_params.h"
#include "video/read_clip.h"

namespace caption::pipeline {

// Counters of a run so far. A clip counts once for each of its prompts.
struct Progress {
  std::int64_t num_prompts = 1;
  std::int64_t clips_total = 0;  // less what was skipped
  std::int64_t clips_done = 0;   // records written, failed ones included
  std::int64_t clips_failed = 0;
  std::int64_t files_skipped = 0;  // in folders, and no videos
  std::int64_t output_tokens = 0;
  std::int64_t elapsed_us = 0;
};

struct Options {
  ThreadPlan threads;
  video::ReadOptions read;  // its `cancelled` is set by run()
  engine::EngineOptions engine;
  sampling::SamplingParams sampling;   // the model's stop ids are added
  std::vector<Prompt> prompts = {{}};  // at least one
  // End a caption where they begin; not with beams.
  std::vector<std::string> stop_strings = {};
  // Hears the text of captions as it comes, in whole characters: of one clip and one prompt at a
  // time. May be empty; must be with beams.
  std::function<void(std::string_view text)> on_text = {};
  std::int64_t frame_queue_bytes = 256LL << 20;
  std::int64_t vision_queue_bytes = 128LL << 20;
  // When it becomes true, what is finished is written, the rest is dropped, and run() returns.
  // run() sets it itself when it ends early for another reason. May be null.
  std::atomic<bool>* stop = nullptr;
  // Called from run()'s own thread, after every engine step and record.
  std::function<void(const Progress&)> on_progress;
  // How a clip is read; tests give their own.
  std::function<video::Clip(const std::filesystem::path&, const video::ReadOptions&)> read_clip =
      [](const std::filesystem::path& path, const video::ReadOptions& how) {
        return video::read_clip(path, how);
      };
};

enum class Ending {
  kFinished,
  kCancelled,
  kReaderGone,  // nobody reads the sink's pipe any more
};

struct StageTimes {
  std::int64_t decode_us = 0;  // summed over its threads
  std::int64_t cache_us = 0;   // of the same threads: reading files to find them in the cache
  std::int64_t vision_us = 0;
  std::int64_t engine_us = 0;
};

struct Outcome {
  Ending ending = Ending::kFinished;
  std::int64_t clips_seen_before = 0;  // taken from the cache folder
  Progress progress;
  StageTimes busy;
  engine::EngineStats engine;
};

// Runs until every input has its record. The model is used by this call alone.
// Throws Error: kOutOfMemory, kIo, kInternal.
Outcome run(model::CaptionModel& model, const std::vector<Input>& inputs, const Options& options,
            records::RecordSink& sink);

}  // namespace caption::pipeline
