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
// A clip is what its bytes are: it is hashed and decoded through one descriptor, and looked at
// again afterwards, so a record speaks of the bytes whose SHA-256 it carries. A clip whose content
// has its record in the sink, under whatever name, is not captioned again; of clips with the same
// content in one run the first is captioned and the others get copies of its record.
//
// With a cache folder, the vision tokens of a clip that was seen before are taken from there: it is
// neither decoded nor encoded.
//
// A clip that fails gives a record with status `failed` for each of its prompts; the others go on.
// In particular a video without a decodable frame never reaches the model. What breaks the run
// itself (the output cannot be written, the model breaks) is thrown after the stages have stopped.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/open_file.h"
#include "engine/engine.h"
#include "model/caption_model.h"
#include "pipeline/input_list.h"
#include "pipeline/prompts.h"
#include "pipeline/threads.h"
#include "records/sink.h"
#include "sampling/sampling_params.h"
#include "video/read_clip.h"

namespace caption::pipeline {

// How long each stage was at work: wall time, the wait for other stages left out.
struct StageTimes {
  std::int64_t decode_us = 0;    // summed over its threads
  std::int64_t identity_us = 0;  // of the same threads: hashing clips
  std::int64_t cache_us = 0;     // of the same threads: looking clips up in the cache
  std::int64_t vision_us = 0;
  std::int64_t engine_us = 0;
};

// What the stages have done so far, for the time that is left (pipeline/time_left.h). Here a clip
// is an input, however many prompts it answers.
struct StageWork {
  StageTimes busy;
  int num_decode_threads = 1;
  std::int64_t num_inputs = 0;
  std::int64_t clips_looked_at = 0;  // hashed and looked up in the output, or not readable
  std::int64_t clips_read = 0;       // of these to be captioned, and decoded or failed
  std::int64_t clips_encoded = 0;    // of these through the vision stage
  // Captions that the engine ended, and those that it is writing, each by the share of its tokens.
  double captions_made = 0;
  double captions_begun = 0;  // of captions_made: the shares of unfinished ones
};

// Counters of a run so far. A clip counts once for each of its prompts.
struct Progress {
  std::int64_t num_prompts = 1;
  std::int64_t clips_total = 0;  // to be written: less what was skipped or had its record before
  std::int64_t clips_done = 0;   // records written, failed ones and copies included
  std::int64_t clips_captioned = 0;  // of clips_done: captioned by this run
  std::int64_t clips_failed = 0;
  std::int64_t clips_suspicious = 0;
  std::int64_t clips_truncated = 0;
  std::int64_t clips_warned = 0;  // whose records have warnings
  std::int64_t clips_moved =
      0;  // counted in clips_done: taken over from the name that the file had
  std::int64_t clips_copied =
      0;  // counted in clips_done: taken from another file of the same content
  std::int64_t clips_kept = 0;      // made again, and worse: the record of before stays
  std::int64_t kept_failed = 0;     // counted in clips_kept: failed in this run
  std::int64_t clips_found = 0;     // had their record before
  std::int64_t found_failed = 0;    // of clips_found: records of failures
  std::int64_t files_skipped = 0;   // in folders, and no videos; once for each prompt
  std::int64_t folders_unread = 0;  // InputList::num_unread_folders()
  std::int64_t output_tokens = 0;
  std::int64_t elapsed_us = 0;
  std::string last_clip = {};  // the path as given (records::escape_file_name) of the last record
  StageWork work = {};

  // Captions that need nothing more, whoever made them, of those that the run is about.
  std::int64_t num_settled() const { return clips_done + clips_found + clips_kept; }
  std::int64_t num_wanted() const { return clips_total + clips_found + clips_kept; }
  // The same with the files that turned out to be no videos: the sum of all stays as it was at the
  // begin of the run.
  std::int64_t num_passed() const { return num_settled() + files_skipped; }
  std::int64_t num_listed() const { return num_wanted() + files_skipped; }
};

// Vision tokens on disk, for later runs over the same clips.
struct VisionCacheOptions {
  std::filesystem::path folder = {};  // empty: none
  std::int64_t max_bytes = 16LL << 30;
  // Everything that decides the tokens beside the clip's bytes (config/identity.h).
  Hash128 identity = {};
};

struct Options {
  ThreadPlan threads;
  video::ReadOptions read;  // its `cancelled` is set by run()
  engine::EngineOptions engine;
  // The model's stop ids are added. Each clip and prompt draws from a stream of its own, which the
  // seed, the clip's content and the prompt's text decide.
  sampling::SamplingParams sampling;
  std::vector<Prompt> prompts = {{}};  // at least one
  // End a caption where they begin; not with beams.
  std::vector<std::string> stop_strings = {};
  // Hears the text of captions as it comes, in whole characters: of one clip and one prompt at a
  // time. May be empty; must be with beams.
  std::function<void(std::string_view text)> on_text = {};
  VisionCacheOptions vision_cache = {};
  // Takes size and time of a file for its content, and reads no more of it than its frames need.
  bool trust_times = false;
  std::int64_t frame_queue_bytes = 256LL << 20;
  std::int64_t vision_queue_bytes = 128LL << 20;
  // When it becomes true, what is finished is written, the rest is dropped, and run() returns.
  // run() sets it itself when it ends early for another reason. May be null.
  std::atomic<bool>* stop = nullptr;
  // Called from run()'s own thread, after every engine step and record.
  std::function<void(const Progress&)> on_progress;
  // How a clip is read, and how a file that does not claim to be a video is told to be none before
  // it is hashed; tests give their own.
  std::function<video::Clip(const OpenFile&, const video::ReadOptions&)> read_clip =
      [](const OpenFile& file, const video::ReadOptions& how) {
        return video::read_clip(file, how);
      };
  std::function<void(const OpenFile&, const video::ReadOptions&)> require_video =
      video::require_video;
};

enum class Ending {
  kFinished,
  kCancelled,
  kReaderGone,  // nobody reads the sink's pipe any more
};

struct Outcome {
  Ending ending = Ending::kFinished;
  std::int64_t clips_seen_before = 0;  // taken from the cache folder
  Progress progress;
  StageTimes busy;
  engine::EngineStats engine;
};

// Runs until every input has its record. The model is used by this call alone.
// Throws Error: kOutOfMemory, kIo, kBadModel (a file of the model was changed), kInternal.
Outcome run(model::CaptionModel& model, const InputList& inputs, const Options& options,
            records::RecordSink& sink);

}  // namespace caption::pipeline
