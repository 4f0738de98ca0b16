// model/caption_model.h: a video captioner: preprocessing constants, prompt, vision tower and
// decoder.
//
// Each family is implemented in one file (llava_next_video.cpp, composed.cpp); open_model.cpp
// chooses among them by the model_type of config.json.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest_cache.h"
#include "base/sha256.h"
#include "model/clip_shape.h"
#include "model/conversation.h"
#include "model/decoder.h"
#include "model/generation_config.h"
#include "model/vision_spec.h"
#include "text/tokenizer.h"
#include "vision/preprocess.h"
#include "weights/format.h"

namespace caption::model {

inline constexpr std::int64_t kUsualProjectorTokens = 64;

// How a composed model's projector computes, as far as its tensors do not tell.
struct ProjectorOptions {
  std::optional<ProjectorKind> kind = {};     // without: recognised by the tensors
  std::optional<Activation> activation = {};  // without: the one that is usual for the kind
  std::int64_t tokens = 0;    // tokens of a frame; C-Abstractor only; 0: kUsualProjectorTokens
  std::int64_t head_dim = 0;  // Perceiver only; 0: 64, or 96 with the names of Idefics2

  std::int64_t frame_tokens() const { return tokens > 0 ? tokens : kUsualProjectorTokens; }
};

// A model whose parts were trained separately; the paths are model folders or files.
struct ComposedSource {
  std::filesystem::path vision;     // CLIP or SigLIP vision checkpoint folder
  std::filesystem::path projector;  // safetensors, see model/internal/projector.h
  std::filesystem::path llm;        // folder of a language model, with the tokenizer
  // The tower's hidden states that the projector gets, side by side; -1 is the last.
  std::vector<std::int64_t> vision_feature_layers = {-1};
  bool drop_cls = true;
  std::int64_t pool_stride = 1;  // 1 means no pooling
  std::string prompt;            // contains "{video}" once and "{prompt}" at most once
  ProjectorOptions projector_options = {};
  // How tensors are called in the files: "THEIRS=OURS", both the beginning of names, for all files,
  // or "PART:THEIRS=OURS" for vision, projector or llm.
  std::vector<std::string> tensor_names = {};
  // Text before everything else when there is a system prompt; contains "{system}" once. Without it
  // a system prompt is refused.
  std::string system_template = {};
  // Text after the caption of an example, whose question is rendered with `prompt`. Without it
  // examples are refused.
  std::string example_end = {};
};

// The weight files of a composed model, by their index (ParameterGroup::source).
enum class ComposedFile { kVision, kProjector, kText };

struct PromptIds {
  std::vector<std::int32_t> ids;  // one id per vision token in place of each placeholder
  // Ascending positions of the vision tokens in ids: those of the examples' clips, then those of
  // the clip.
  std::vector<std::int32_t> vision_positions;
  std::vector<std::int32_t> positions = {};  // M-RoPE: [3, ids.size()] (engine/engine.h)
};

// A PEFT adapter's folder and the name by which requests choose it. Without a name it applies to
// every request.
struct AdapterSource {
  std::filesystem::path folder;
  std::string name = {};
};

// An adapter that requests can choose, by its index in CaptionModel::adapters().
struct NamedAdapter {
  std::string name;
  Sha256 content;  // hash of its files
};

// What is said about an adapter of a model.
struct AdapterSummary {
  std::filesystem::path folder;
  std::string name;  // empty: it applies to every request
  std::int64_t num_modules = 0;
  std::int64_t min_rank = 0;
  std::int64_t max_rank = 0;
};

// What a model is opened for. kToCheck validates all files as kToRun does, but merges no adapter
// into the weights; with WeightFormat::kF32 no weight is then read.
enum class Opening { kToRun, kToCheck };

class CaptionModel {
 public:
  virtual ~CaptionModel() = default;

  // What the model was opened for.
  virtual const Context& context() const = 0;
  // Whether it has a vision tower. Without one preprocess_spec() says nothing, vision_tokens() is
  // 0, encode_clips() throws Error(kInternal), and prompts are those of the question alone.
  virtual bool sees_video() const { return true; }
  virtual const vision::PreprocessSpec& preprocess_spec() const = 0;
  // Changes the upper limit of preprocess_spec() and with it vision_tokens() and the prompts;
  // throws as vision::set_max_pixels(). Call it before any clip is preprocessed.
  virtual void set_max_pixels(std::int64_t max_pixels) = 0;
  virtual std::int64_t vision_tokens(const ClipShape& clip) const = 0;
  // Returns the family's chat template filled with the conversation, whose last question is about
  // `clip`. Text of the conversation that looks like a special token is treated as text. Throws
  // Error(kUsage) for text that the template cannot express: a system prompt where it has no place
  // for one, or words that the tokenizer reads as the video.
  virtual PromptIds build_prompt(const Conversation& conversation, const ClipShape& clip) const = 0;
  // The same for a conversation of one question.
  PromptIds build_prompt(std::string_view user_prompt, const ClipShape& clip) const {
    return build_prompt(Conversation{.prompt = std::string(user_prompt)}, clip);
  }
  // Encodes clips together. clips[i]: [frames, 3, H, W] f32 on the host, dense, the preprocessed
  // frames of a clip -> for each clip [vision_tokens(clip), DecoderSpec::vision_width()] f32 on the
  // stream's device, which must be the context's; the same bits in any company. Uses scratch memory
  // of the model: call it from one thread at a time; the decoder may run in another thread
  // meanwhile.
  virtual std::vector<Tensor> encode_clips(Stream& stream, std::span<const ConstView> clips) = 0;
  Tensor encode_frames(Stream& stream, ConstView pixel_values) {
    return std::move(encode_clips(stream, std::span(&pixel_values, 1)).front());
  }
  // The share of a pass over the tower that a clip of these pixels takes. Clips whose shares add up
  // to 1 or less are encoded in one pass; together they gain nothing beyond that.
  virtual double pass_share(const Shape& pixel_values) const = 0;
  // Bytes of the scratch memory of encode_clips() that is held now.
  virtual std::int64_t vision_scratch_bytes() const = 0;

  virtual Decoder& decoder() = 0;
  virtual const text::Tokenizer& tokenizer() const = 0;
  virtual std::vector<std::int32_t> eos_ids() const = 0;
  // Whether penalties of repetition count the prompt's tokens (SamplingParams::counts_prompt), as
  // they do where the reference passes input_ids to generate().
  virtual bool penalties_count_prompt() const { return true; }
  virtual std::string default_prompt() const = 0;  // "이 영상을 자세히 설명해 주세요."
  virtual std::string_view family() const = 0;     // "llava_next_video", "composed"
  virtual std::int64_t weight_bytes() const = 0;   // held in memory or mapped
  // Whether config.json marks ("caption_cli_demonstration") a model that scripts/demo_model trained
  // on drawn scenes, as a demonstration and not for real use.
  virtual bool is_demonstration() const { return false; }
  // The caption that a demonstration model was trained to give for clips unlike its training clips
  // ("caption_cli_unlike" in config.json together with "caption_cli_demonstration"), or empty.
  virtual std::string_view unlike_sentence() const { return {}; }
  // The sampling settings in the model's folder; for a composed model those of the language model.
  virtual const GenerationConfig& generation_config() const = 0;

  // The model's identity: SHA-256 over the contents of its weight files, of the adapters that apply
  // to every request, and of the configuration that it was opened with. The first call reads all
  // weights (about 1.5 GB/s) unless the DigestCache that the model was opened with has their
  // digests. Thread-safe. Throws Error(kBadModel) when a weight file was written since the model
  // was opened; kIo.
  virtual Sha256 content_hash() const = 0;
  // The adapters with names. Those without enter content_hash(). Throws as content_hash().
  virtual std::vector<NamedAdapter> adapters() const { return {}; }
  // All adapters: those inside the model's folders, then those that the user named.
  virtual std::vector<AdapterSummary> adapter_summaries() const { return {}; }
  // Returns a sentence for an Error about the first weight file that was written or cut short since
  // the model was opened; from then on the model's results may be wrong. Thread-safe. Costs an
  // fstat() per file, except in the rare case that weights/checkpoint.h describes. Throws
  // Error(kIo).
  virtual std::optional<std::string> find_changed_file() const = 0;
  // Returns "FILE: tensor NAME holds a number that is not finite (element 3)" of the first weight
  // of 16 or 32 bits that does; nullopt if none does, or if it is not known. Reads the files whole.
  // Thread-safe.
  virtual std::optional<std::string> find_broken_weight() const { return std::nullopt; }
};

struct OpenOptions {
  DigestCache digests = {};  // for content_hash()
  std::vector<AdapterSource> adapters = {};
  Opening opening = Opening::kToRun;
  // Whether matrices that a file holds as codes may be decoded and rounded a second time, for a
  // format that does not keep these codes (weights/format.h).
  bool requantises = false;
  // If set, opening the model and its content_hash() throw Error(kCancelled) soon after it has
  // become true: between two weights, or while a file is hashed. It must outlive the model.
  const std::atomic<bool>* cancelled = nullptr;
};

// Opens a Hugging Face folder by its config.json and holds its weights on the context's device in
// `format`, for which can_be_held() is true. Activations are f32 on the CPU; dense
// layers may round them when they read them (kernels/linear.h). An adapter (LoRA, as PEFT saves it)
// inside the folder applies to every request, as do those of `adapters` without a name; adapters
// with names may change the language model only. Throws Error(kBadModel) for an invalid folder, for
// one with a file that is written meanwhile, and for an adapter of another base model; kUnavailable
// naming the model_type, the quantisation or what this build cannot apply of an adapter.
std::unique_ptr<CaptionModel> open_model(const Context& context,
                                         const std::filesystem::path& folder,
                                         weights::WeightFormat format,
                                         const OpenOptions& options = {});
// Opens a language model without a tower, as a draft model: a folder or GGUF file of a text family
// (model/text_family.h), for which is_language_model() is true. Throws as open_model().
std::unique_ptr<CaptionModel> open_language_model(const Context& context,
                                                  const std::filesystem::path& path,
                                                  weights::WeightFormat format,
                                                  const OpenOptions& options = {});
// Throws Error(kBadModel) for a folder without a configuration that can be read.
bool is_language_model(const std::filesystem::path& path);
// Adapters inside the folders of the parts apply to these parts alone.
std::unique_ptr<CaptionModel> open_composed(const Context& context, const ComposedSource& source,
                                            weights::WeightFormat format,
                                            const OpenOptions& options = {});

}  // namespace caption::model
