#include "pipeline/pipeline.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "pipeline/internal/archive_filler.h"
#include "pipeline/internal/engine_stage.h"
#include "pipeline/internal/recorder.h"
#include "pipeline/internal/stages.h"

namespace caption::pipeline {
namespace {

std::unique_ptr<VisionCache> open_cache(model::CaptionModel& model, const Options& options) {
  if (options.vision_cache.folder.empty()) return nullptr;
  return std::make_unique<VisionCache>(options.vision_cache, model);
}

std::shared_ptr<drafts::NearestTexts> open_nearest(const Options& options) {
  if (options.drafts.how.method != drafts::Method::kArchive) return nullptr;
  return std::make_shared<drafts::NearestTexts>(options.drafts.nearest_bytes());
}

std::shared_ptr<drafts::TokenArchive> make_archive(const Options& options) {
  if (options.drafts.how.method != drafts::Method::kArchive) return nullptr;
  return std::make_shared<drafts::TokenArchive>(options.drafts.archive_bytes());
}

// Takes the frames out of the examples, so that they can be freed when they are encoded.
std::vector<ExampleClip> take_example_clips(std::vector<Example>& examples) {
  std::vector<ExampleClip> clips;
  for (Example& example : examples) {
    if (!example.clip.has_value()) continue;
    clips.push_back(*example.clip);
    example.clip->frames.reset();
  }
  return clips;
}

engine::EngineOptions engine_options_of(const Replica& replica, const Options& options) {
  engine::EngineOptions engine = options.engine;
  engine.kv_cache_bytes = replica.kv_cache_bytes;
  // Pages computed after a weight file changed do not belong to the hash in page_identity.
  engine.disk.may_store = [model = replica.model] {
    return !model->find_changed_file().has_value();
  };
  return engine;
}

// A replica of the model with its stages.
struct RunningReplica {
  RunningReplica(const Replica& replica, std::size_t number, std::vector<ExampleClip> examples,
                 Shared& shared, Recorder& recorder, DecodedQueue& frames, std::size_t queue_bytes)
      : device(replica.name, shared),
        requests(queue_bytes),
        engine(replica, engine_options_of(replica, shared.options), number, shared, device,
               recorder, requests),
        vision(replica, shared, device, std::move(examples), frames, requests) {}

  ReplicaDevice device;
  EncodedQueue requests;
  EngineStage engine;
  VisionStage vision;
};

// All stages of a run.
class Run {
 public:
  // `examples` are as VisionStage takes them.
  Run(std::span<const Replica> replicas, const InputList& inputs, const Options& options,
      std::vector<ExampleClip> examples, records::RecordSink& sink);
  // Adds the captions that are known before the run to the archive of its drafts, if it has one.
  void fill_archive(const model::CaptionModel& model, std::vector<std::string> captions);
  // Ends all threads, which on an early end drop what they have.
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Outcome finish();

 private:
  // Reads the inputs, or these clips again, and makes their captions.
  void make(std::optional<std::vector<Job>> again);
  void run_engines(const std::vector<RunningReplica*>& replicas);
  void run_engine(RunningReplica& replica);
  void end_early();
  Ending ending() const;

  const InputList& inputs_;
  const Options& options_;
  const std::unique_ptr<VisionCache> cache_;
  Shared shared_;
  Recorder recorder_;
  DecodedQueue frames_;
  // The stages are destroyed first; ~Run() has then ended their waiting.
  std::vector<std::unique_ptr<RunningReplica>> replicas_;
  std::optional<DecodeStage> decode_stage_;
  std::optional<ArchiveFiller> archive_filler_;
  std::int64_t num_seen_before_ = 0;
  bool is_finished_ = false;
};

Run::Run(std::span<const Replica> replicas, const InputList& inputs, const Options& options,
         std::vector<ExampleClip> examples, records::RecordSink& sink)
    : inputs_(inputs),
      options_(options),
      cache_(open_cache(*replicas.front().model, options)),
      shared_{.options = options,
              .sink = sink,
              .cache = cache_.get(),
              .archive = make_archive(options),
              .nearest = open_nearest(options),
              .num_replicas = static_cast<int>(replicas.size())},
      recorder_(shared_, inputs, replicas.size()),
      frames_(static_cast<std::size_t>(options.frame_queue_bytes)) {
  const std::size_t queue_bytes =
      static_cast<std::size_t>(options.vision_queue_bytes) / replicas.size();
  if (replicas.size() > 1) {
    shared_.least_queued_bytes =
        queue_bytes / static_cast<std::size_t>(std::max(1, options.engine.max_num_seqs));
  }
  // The last one gets the examples themselves, so that their frames can be freed.
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const bool is_last = i + 1 == replicas.size();
    replicas_.push_back(std::make_unique<RunningReplica>(
        replicas[i], i, is_last ? std::exchange(examples, {}) : examples, shared_, recorder_,
        frames_, queue_bytes));
  }
}

Run::~Run() {
  if (!is_finished_) options_.stop->store(true);
  frames_.cancel();
  for (const auto& replica : replicas_) replica->requests.cancel();
  decode_stage_.reset();
}

void Run::fill_archive(const model::CaptionModel& model, std::vector<std::string> captions) {
  if (shared_.archive == nullptr) return;
  archive_filler_.emplace(model, std::move(captions), shared_.archive, shared_);
}

Outcome Run::finish() {
  std::optional<std::vector<Job>> again;
  do {
    make(std::move(again));
    if (ending() != Ending::kFinished) break;
    again = shared_.returned.take();
  } while (!again->empty());
  is_finished_ = ending() == Ending::kFinished;
  Outcome outcome;
  outcome.ending = ending();
  outcome.progress = recorder_.progress();
  outcome.clips_seen_before = num_seen_before_;
  outcome.busy = outcome.progress.work.busy;
  outcome.engine = recorder_.engine_stats();
  outcome.had_drafts = options_.drafts.how.method != drafts::Method::kNone;
  if (options_.drafts.layers != nullptr) outcome.found_layers = options_.drafts.layers->found();
  for (const auto& replica : replicas_) {
    outcome.drafts += replica->engine.draft_counts();
    outcome.drafted_steps += replica->engine.drafted_steps();
    const std::optional<drafts::UnfinishedSearch> search = replica->engine.unfinished_search();
    if (search.has_value() && (!outcome.layer_search.has_value() ||
                               search->num_texts > outcome.layer_search->num_texts)) {
      outcome.layer_search = search;
    }
  }
  return outcome;
}

void Run::make(std::optional<std::vector<Job>> again) {
  std::vector<RunningReplica*> working;
  frames_.reopen();
  for (const auto& replica : replicas_) {
    if (replica->device.is_lost()) continue;
    replica->requests.reopen();
    working.push_back(replica.get());
  }
  for (RunningReplica* const replica : working) replica->vision.start();
  if (again.has_value()) {
    decode_stage_.emplace(inputs_, *std::move(again), shared_, frames_);
  } else {
    decode_stage_.emplace(inputs_, shared_, frames_);
  }
  run_engines(working);
  shared_.breakdown.rethrow();
  num_seen_before_ += decode_stage_->num_seen_before();
  if (ending() != Ending::kFinished) return;
  decode_stage_.reset();
  for (RunningReplica* const replica : working) replica->vision.wait();
  shared_.breakdown.rethrow();
}

// The first engine, and with it a single one, runs on the caller's thread.
void Run::run_engines(const std::vector<RunningReplica*>& replicas) {
  if (replicas.size() == 1) return replicas.front()->engine.run();
  std::vector<std::thread> threads;
  threads.reserve(replicas.size());
  try {
    for (std::size_t i = 1; i < replicas.size(); ++i) {
      threads.emplace_back([this, replica = replicas[i]] { run_engine(*replica); });
    }
  } catch (const std::exception& error) {  // there is no thread, or no memory for one
    shared_.breakdown.set(std::make_exception_ptr(Error(
        ErrorCode::kOutOfMemory, std::string("cannot start an engine's thread: ") + error.what())));
    end_early();
  }
  run_engine(*replicas.front());
  for (std::thread& thread : threads) thread.join();
}

void Run::run_engine(RunningReplica& replica) {
  try {
    replica.engine.run();
  } catch (...) {
    shared_.breakdown.set(std::current_exception());
    end_early();
  }
  if (ending() != Ending::kFinished) end_early();
}

// Ends the other engines, too.
void Run::end_early() {
  options_.stop->store(true);
  frames_.cancel();
  for (const auto& replica : replicas_) replica->requests.cancel();
}

Ending Run::ending() const {
  if (recorder_.reader_is_gone()) return Ending::kReaderGone;
  return options_.stop->load() ? Ending::kCancelled : Ending::kFinished;
}

std::vector<std::string> names_of(const std::vector<AdapterChoice>& adapters) {
  std::vector<std::string> names;
  for (const AdapterChoice& adapter : adapters) names.push_back(adapter.name);
  return names;
}

}  // namespace

void require_adapters(const Options& options, const InputList& inputs) {
  const std::vector<std::string> names = names_of(options.adapters);
  for (const Prompt& prompt : options.prompts) {
    if (prompt.adapter.empty()) continue;
    find_adapter(names, prompt.adapter, "prompt \"" + prompt.name + "\"");
    if (inputs.has_adapters()) {
      throw Error(ErrorCode::kUsage, "prompt \"" + prompt.name +
                                         "\" has an adapter, and so has a clip of the list; only "
                                         "one of the two can choose");
    }
  }
}

std::vector<std::string> unchosen_adapters(const Options& options, const InputList& inputs) {
  std::vector<std::string> unchosen = names_of(options.adapters);
  if (unchosen.empty()) return unchosen;
  std::vector<bool> is_chosen(unchosen.size(), false);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const AdapterIndex adapter = inputs.adapter(i);
    if (adapter != kNoAdapter) is_chosen.at(static_cast<std::size_t>(adapter)) = true;
  }
  std::size_t position = 0;
  std::erase_if(unchosen, [&](const std::string& name) {
    return is_chosen[position++] ||
           std::any_of(options.prompts.begin(), options.prompts.end(),
                       [&](const Prompt& prompt) { return prompt.adapter == name; });
  });
  return unchosen;
}

AdapterIndex adapter_of(const Options& options, const InputList& inputs, std::size_t input,
                        const Prompt& prompt) {
  if (prompt.adapter.empty()) return inputs.adapter(input);
  return find_adapter(names_of(options.adapters), prompt.adapter, prompt.name);
}

std::string adapter_name(const Options& options, AdapterIndex adapter) {
  return adapter == kNoAdapter ? "" : options.adapters.at(static_cast<std::size_t>(adapter)).name;
}

text::VocabularyMatch match_draft(const model::CaptionModel& model,
                                  const model::CaptionModel& draft) {
  return text::match_vocabularies(model.tokenizer(), model.eos_ids(), draft.tokenizer(),
                                  draft.eos_ids());
}

engine::DraftDecoderOptions draft_decoder_options(const model::CaptionModel& model,
                                                  const model::CaptionModel& draft,
                                                  const engine::EngineOptions& engine,
                                                  std::int64_t kv_cache_bytes) {
  const auto share = static_cast<double>(draft.weight_bytes()) /
                     static_cast<double>(std::max<std::int64_t>(1, model.weight_bytes()));
  return {.max_num_seqs = engine.max_num_seqs,
          .max_num_batched_tokens = engine.max_num_batched_tokens,
          .kv_cache_bytes = kv_cache_bytes,
          .kv_dtype = engine.kv_dtype,
          .relative_cost = share > 0 ? share : 1};
}

Outcome run(std::span<const Replica> replicas, const InputList& inputs, Options options,
            records::RecordSink& sink) {
  CAPTION_CHECK(!replicas.empty() && (replicas.size() == 1 || !options.on_text),
                "pipeline: no model, or several that stream their captions");
  model::CaptionModel& model = *replicas.front().model;
  std::vector<ExampleClip> example_clips = take_example_clips(options.examples);
  for (const std::int32_t id : model.eos_ids()) options.sampling.stop_ids.push_back(id);
  CAPTION_CHECK(!options.prompts.empty(), "pipeline: there is nothing to ask");
  CAPTION_CHECK(std::ssize(options.adapters) == model.decoder().num_adapters(),
                "pipeline: other adapters than the decoder's");
  require_adapters(options, inputs);
  for (Prompt& prompt : options.prompts) {
    if (prompt.text.empty()) prompt.text = model.default_prompt();
  }
  std::atomic<bool> own_stop{false};
  if (options.stop == nullptr) options.stop = &own_stop;
  if (options.drafts.layers == nullptr) {
    options.drafts.layers = std::make_shared<drafts::LayerChoice>();
  }
  std::vector<std::string> known_captions = std::exchange(options.drafts.known_captions, {});
  Run stages(replicas, inputs, options, std::move(example_clips), sink);
  stages.fill_archive(model, std::move(known_captions));
  return stages.finish();
}

Outcome run(model::CaptionModel& model, const InputList& inputs, Options options,
            records::RecordSink& sink) {
  const Replica replica = {.model = &model, .kv_cache_bytes = options.engine.kv_cache_bytes};
  return run(std::span(&replica, 1), inputs, std::move(options), sink);
}

}  // namespace caption::pipeline
