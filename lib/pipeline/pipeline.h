// pipeline/pipeline.h: converts videos to records in three concurrent stages.
//
//   decode threads --Clip--> queue --> vision thread --VisionTokens--> queue --> engine --> sink
//
// With several replicas of the model, each on a device of its own, each has a vision thread, a
// queue and an engine; they take clips from the one queue of frames as they have room, so that a
// faster one gets more. Which replica made a caption changes nothing in it. Clips that were under
// way on a device that is lost are read again at the end and made by the others.
//
// Each queue is a ByteQueue with a limit in bytes: a stage that is ahead waits, whatever the size
// of single clips. A clip's record travels with its frames, its vision tokens and its requests, so
// a caption cannot be assigned to another video or prompt, in whatever order requests finish.
// Records are written as captions finish. Several prompts share the clip's decoding, its vision
// tokens and, with the prefix cache, its KV pages.
//
// A clip is identified by its bytes: it is hashed and decoded through one descriptor and checked
// for changes afterwards, so a record describes the bytes whose SHA-256 it contains. A clip whose
// content has a record in the sink, under whatever name, is not captioned again. If clips of a run
// have the same content, the first is captioned and the others get copies of its record.
//
// With a cache folder, the vision tokens of a known clip are read from there, and the clip is
// neither decoded nor encoded.
//
// A clip that fails gives a record with status `failed` for each of its prompts; other clips are
// unaffected. A video without a decodable frame never reaches the model. Errors that concern the
// whole run (the output cannot be written, the model fails) are thrown after the stages have
// stopped.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/open_file.h"
#include "drafts/drafter.h"
#include "drafts/layer_choice.h"
#include "engine/draft_decoder.h"
#include "engine/engine.h"
#include "model/caption_model.h"
#include "pipeline/adapters.h"
#include "pipeline/examples.h"
#include "pipeline/input_list.h"
#include "pipeline/prompts.h"
#include "pipeline/threads.h"
#include "records/record.h"
#include "records/sink.h"
#include "sampling/sampling_params.h"
#include "text/vocabulary_match.h"
#include "video/read_clip.h"

namespace caption::pipeline {

// Wall time for which each stage was busy, without waiting for other stages.
struct StageTimes {
  std::int64_t decode_us = 0;    // decoding time, summed over the decode threads
  std::int64_t identity_us = 0;  // hashing time of the same threads
  std::int64_t cache_us = 0;     // cache lookup time of the same threads
  std::int64_t vision_us = 0;
  std::int64_t engine_us = 0;
};

// Work done by the stages so far, over all replicas, from which pipeline/time_left.h estimates the
// time left. Here a clip is an input, whatever its number of prompts.
struct StageWork {
  StageTimes busy;
  int num_decode_threads = 1;
  int num_replicas = 1;
  std::int64_t num_inputs = 0;
  std::int64_t clips_looked_at = 0;  // hashed and looked up in the output, or unreadable
  // Clips to be captioned that were decoded or failed, and those that take the caption of another
  // file of the same content, which count here as they do in Progress::clips_done.
  std::int64_t clips_read = 0;
  std::int64_t clips_encoded = 0;  // those of clips_read that have passed the vision stage
  // Captions that the engine finished, plus the finished fraction of those in progress by tokens.
  double captions_made = 0;
  double captions_begun = 0;  // part of captions_made: the fractions of unfinished captions
};

// Counters of a run so far. A clip counts once for each of its prompts.
struct Progress {
  std::int64_t num_prompts = 1;
  // Records to be written, without skipped files and clips found in the output.
  std::int64_t clips_total = 0;
  std::int64_t clips_done = 0;       // records written, including failed ones and copies
  std::int64_t clips_captioned = 0;  // part of clips_done: captioned by this run
  std::int64_t clips_failed = 0;
  std::int64_t clips_suspicious = 0;
  std::int64_t clips_truncated = 0;
  std::int64_t clips_warned = 0;  // records with warnings
  std::string last_warning = {};  // "a.mp4: 1 damaged packet or frame"; empty without warnings
  // Part of clips_done: records of moved files, taken over from the previous name.
  std::int64_t clips_moved = 0;
  // Part of clips_done: records copied from another file of the same content.
  std::int64_t clips_copied = 0;
  std::int64_t clips_kept = 0;    // captioned again without improvement; the earlier record is kept
  std::int64_t kept_failed = 0;   // part of clips_kept: failed in this run
  std::int64_t clips_found = 0;   // clips that had a record before the run
  std::int64_t found_failed = 0;  // part of clips_found: records of failures
  // Files in folders that are not videos; each counts once per prompt.
  std::int64_t files_skipped = 0;
  std::int64_t folders_unread = 0;  // InputList::num_unread_folders()
  std::int64_t output_tokens = 0;
  std::int64_t elapsed_us = 0;
  std::string last_clip = {};  // the path as given (records::escape_file_name) of the last record
  StageWork work = {};

  // Number of captions that need no more work, and the number of captions of the whole run.
  std::int64_t num_settled() const { return clips_done + clips_found + clips_kept; }
  std::int64_t num_wanted() const { return clips_total + clips_found + clips_kept; }
  // The same including files that turned out not to be videos: all that the run looks at counts, so
  // that the share that is passed never falls.
  std::int64_t num_passed() const { return num_settled() + files_skipped; }
  std::int64_t num_listed() const { return num_wanted() + files_skipped; }
};

// What a draft model reads before a caption: the question and the video, encoded by its own tower,
// or the question alone.
enum class DraftReads { kVideo, kText };

// Speculative decoding (drafts/drafter.h). Changes no caption.
struct DraftOptions {
  drafts::DrafterOptions how = {.method = drafts::Method::kNone};
  // Method::kArchive: captions known before the run, from the least to the most useful.
  std::vector<std::string> known_captions = {};
  std::int64_t max_archive_bytes = 64LL << 20;  // archive_bytes() and nearest_bytes() together
  DraftReads model_reads = DraftReads::kVideo;
  // Method::kSelf: the layers left out, or how they are kept when they are found. Null: they are
  // found in this run, and for it alone.
  std::shared_ptr<drafts::LayerChoice> layers = nullptr;

  // Memory for captions of the run with their clips' looks: the last 2,500 or so, since each
  // caption is compared with all of them.
  std::int64_t nearest_bytes() const { return max_archive_bytes / 32; }
  // Memory for the tokens of all captions.
  std::int64_t archive_bytes() const { return max_archive_bytes - nearest_bytes(); }
};

// What drafts of a caption are made from.
struct DraftInputs {
  std::uint64_t topic = 0;                // equal for captions of one prompt and adapter
  std::optional<drafts::Sketch> look;     // the clip's look, with Method::kArchive
  std::optional<engine::Request> prompt;  // that of the draft model, if it has one
};

// Cache of vision tokens on disk, for later runs over the same clips.
struct VisionCacheOptions {
  std::filesystem::path folder = {};  // empty: no cache
  std::int64_t max_bytes = 16LL << 30;
  // Hash of everything besides the clip's bytes that affects the tokens (config/identity.h).
  Hash128 identity = {};
};

struct Options {
  ThreadPlan threads;            // those of vision and engine count for each replica
  video::ReadOptions read;       // run() sets its `cancelled`
  engine::EngineOptions engine;  // run() sets its drafts
  DraftOptions drafts;
  // The model's stop ids are added. Each clip and prompt has a separate stream of random numbers,
  // which the seed, the clip's content and the prompt's text determine.
  sampling::SamplingParams sampling;
  std::vector<Prompt> prompts = {{}};  // at least one
  // The beginning of every clip's conversation. The vision tokens of the examples are made once,
  // and with the prefix cache so are the KV pages that they fill.
  std::string system = {};
  std::vector<Example> examples = {};
  // The adapters that clips (InputList::adapter()) and prompts may choose; as many as the model's
  // decoder has.
  std::vector<AdapterChoice> adapters = {};
  // A caption ends where one of these strings begins. Not allowed with beam search.
  std::vector<std::string> stop_strings = {};
  // Receives the text of captions during generation, in complete characters and without white space
  // around it, for one clip and one prompt at a time. May be empty; must be empty with beam search
  // and with several replicas.
  std::function<void(std::string_view text)> on_text = {};
  VisionCacheOptions vision_cache = {};
  // Identifies a file by its path, size and time instead of its digest, so that only the parts
  // needed for the frames are read.
  bool trust_times = false;
  std::int64_t frame_queue_bytes = 256LL << 20;
  std::int64_t vision_queue_bytes = 128LL << 20;  // summed over the replicas
  // The engine begins when all clips are encoded, or the queue before it is full: no other stage
  // takes processor time from its steps, which a measurement wants.
  bool encodes_first = false;
  // When set to true, finished captions are written, the others are dropped, and run() returns.
  // run() sets it itself when it ends early for another reason. May be null.
  std::atomic<bool>* stop = nullptr;
  // Called with each request before an engine gets it, which it may change, and the record that its
  // caption will complete: video, id, prompt and adapter are set. May be empty. This function and
  // the next two are called by one thread at a time; with one replica, by run()'s.
  std::function<void(const records::Record& record, engine::Request& request)> on_request = {};
  // Called after on_request with what the drafts of its caption are made from, as on_request is.
  std::function<void(const records::Record& record, const engine::Request& request,
                     const DraftInputs& drafts)>
      on_draft_inputs = {};
  // Called after every engine step and every record.
  std::function<void(const Progress&)> on_progress;
  // Reads a clip, and checks before hashing that a file without a video suffix is a video. Tests
  // replace both functions.
  ReadClip read_clip = [](const OpenFile& file, const video::ReadOptions& how) {
    return video::read_clip(file, how);
  };
  std::function<void(const OpenFile&, const video::ReadOptions&)> require_video =
      video::require_video;
};

enum class Ending {
  kFinished,
  kCancelled,
  kReaderGone,  // the reader of the sink's pipe has closed it
};

struct Outcome {
  Ending ending = Ending::kFinished;
  std::int64_t clips_seen_before = 0;  // clips whose vision tokens came from the cache folder
  Progress progress;
  StageTimes busy;
  engine::EngineStats engine;
  bool had_drafts = false;  // Options::drafts had a method
  drafts::DraftCounts drafts;
  drafts::DraftedSteps drafted_steps;
  // Method::kSelf: the search for the layers to leave out that got furthest, if none has ended.
  std::optional<drafts::UnfinishedSearch> layer_search = std::nullopt;
  // Method::kSelf: the layers to leave out that this run has found.
  std::optional<drafts::LeftOutLayers> found_layers = std::nullopt;
};

// Throws Error(kUsage) when a prompt names an unknown adapter, or clips and prompts both choose.
void require_adapters(const Options& options, const InputList& inputs);
// The names of the adapters that no clip and no prompt chooses.
std::vector<std::string> unchosen_adapters(const Options& options, const InputList& inputs);
// The adapter of a clip's captions for a prompt, and its name, which is empty for none.
AdapterIndex adapter_of(const Options& options, const InputList& inputs, std::size_t input,
                        const Prompt& prompt);
std::string adapter_name(const Options& options, AdapterIndex adapter);

// The model on one device.
struct Replica {
  model::CaptionModel* model = nullptr;
  std::int64_t kv_cache_bytes = 0;  // replaces EngineOptions::kv_cache_bytes
  std::string name = {};            // for messages: "GPU 1"
  // A smaller model on the same device that guesses tokens, and the memory of its KV pages; null:
  // none. Its vocabulary must have tokens of the model's.
  model::CaptionModel* draft = nullptr;
  std::int64_t draft_kv_cache_bytes = 0;
};

// Throws Error(kUsage) when the draft model's vocabulary has no token of the model's.
text::VocabularyMatch match_draft(const model::CaptionModel& model,
                                  const model::CaptionModel& draft);

// The options of the draft model's side of an engine with these options, with `kv_cache_bytes` of
// pages for the draft model.
engine::DraftDecoderOptions draft_decoder_options(const model::CaptionModel& model,
                                                  const model::CaptionModel& draft,
                                                  const engine::EngineOptions& engine,
                                                  std::int64_t kv_cache_bytes);

// Returns when every input has its record, or earlier as Outcome::ending tells. No other thread may
// use the models during the call; they are equal but for their devices. The frames of examples that
// no copy of `options` shares are freed as soon as they are encoded.
// A replica whose device fails with Error(kUnavailable) leaves the run, with a warning; a clip on
// which two such devices worked fails. Throws Error: kUnavailable, that of the last replica;
// kOutOfMemory, kIo, kBadModel (a file of the model was changed, or its logits are not finite for
// the first clip), kInternal; kUsage as require_adapters().
Outcome run(std::span<const Replica> replicas, const InputList& inputs, Options options,
            records::RecordSink& sink);
// The same with one replica, whose KV pages have EngineOptions::kv_cache_bytes.
Outcome run(model::CaptionModel& model, const InputList& inputs, Options options,
            records::RecordSink& sink);

}  // namespace caption::pipeline
