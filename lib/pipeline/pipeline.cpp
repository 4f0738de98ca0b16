#include "pipeline/pipeline.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "pipeline/internal/stages.h"

namespace caption::pipeline {
namespace {

// Stops the stages on every exit from run(): closing the queues ends all waiting threads.
class StopGuard {
 public:
  StopGuard(std::atomic<bool>& stop, DecodedQueue& frames, EncodedQueue& requests)
      : stop_(stop), frames_(frames), requests_(requests) {}
  ~StopGuard() {
    if (!is_released_) stop_.store(true);
    frames_.cancel();
    requests_.cancel();
  }
  StopGuard(const StopGuard&) = delete;
  StopGuard& operator=(const StopGuard&) = delete;

  // Called when all threads have ended normally; the caller's flag is then left unchanged.
  void release() { is_released_ = true; }

 private:
  std::atomic<bool>& stop_;
  DecodedQueue& frames_;
  EncodedQueue& requests_;
  bool is_released_ = false;
};

std::unique_ptr<VisionCache> open_cache(model::CaptionModel& model, const Options& options) {
  if (options.vision_cache.folder.empty()) return nullptr;
  return std::make_unique<VisionCache>(options.vision_cache, model);
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

Outcome run(model::CaptionModel& model, const InputList& inputs, Options options,
            records::RecordSink& sink) {
  std::vector<ExampleClip> example_clips = take_example_clips(options.examples);
  for (const std::int32_t id : model.eos_ids()) options.sampling.stop_ids.push_back(id);
  CAPTION_CHECK(!options.prompts.empty(), "pipeline: there is nothing to ask");
  CAPTION_CHECK(std::ssize(options.adapters) == model.decoder().num_adapters(),
                "pipeline: other adapters than the decoder's");
  require_adapters(options, inputs);
  for (Prompt& prompt : options.prompts) {
    if (prompt.text.empty()) prompt.text = model.default_prompt();
  }

  // Pages computed after a weight file changed do not belong to the hash in page_identity.
  options.engine.disk.may_store = [&model] { return !model.find_changed_file().has_value(); };

  std::atomic<bool> own_stop{false};
  if (options.stop == nullptr) options.stop = &own_stop;

  DecodedQueue frames(static_cast<std::size_t>(options.frame_queue_bytes));
  EncodedQueue requests(static_cast<std::size_t>(options.vision_queue_bytes));
  const std::unique_ptr<VisionCache> cache = open_cache(model, options);
  Shared shared{.options = options, .sink = sink, .cache = cache.get()};
  EngineStage engine_stage(model, shared, requests, inputs);
  // The guard is destroyed before the stages, so that their threads do not wait while they are
  // joined.
  std::optional<DecodeStage> decode_stage;
  std::optional<VisionStage> vision_stage;
  StopGuard guard(*options.stop, frames, requests);
  vision_stage.emplace(model, shared, std::move(example_clips), frames, requests);
  decode_stage.emplace(inputs, shared, frames);

  Outcome outcome;
  outcome.ending = engine_stage.run();
  shared.breakdown.rethrow();
  if (outcome.ending == Ending::kFinished) guard.release();
  outcome.progress = engine_stage.progress();
  outcome.clips_seen_before = decode_stage->num_seen_before();
  outcome.busy = outcome.progress.work.busy;
  outcome.engine = engine_stage.engine_stats();
  return outcome;
}

}  // namespace caption::pipeline
