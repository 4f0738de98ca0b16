// model/caption_model.h: a video captioner: preprocessing constants, prompt, tower, decoder.
//
// One file per family implements it (llava_next_video.cpp, composed.cpp); nothing else knows a
// model's name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest_cache.h"
#include "base/sha256.h"
#include "model/decoder.h"
#include "model/generation_config.h"
#include "text/tokenizer.h"
#include "vision/preprocess.h"

namespace caption::model {

// How weights are held. Activations are f32 on the CPU; packed matrices round them as they read
// them (kernels/packed_weight.h).
enum class WeightType {
  kF32,   // the numbers of the file
  kBF16,  // rounded to bf16
  // The matrices of the decoder's layers rounded to 8 or 4 bits at load (weights/quantise.h), its
  // LM head to int8; everything else is bf16.
  kInt8,
  kInt4,
  kNf4,
  // 8 bits with a scale per row, times activations of 8 bits: the decoder's layers, its LM head,
  // and the linear layers of tower and projector.
  kW8A8,
};

// A model whose parts were trained apart (design.md §9); paths are model folders or files.
struct ComposedSource {
  std::filesystem::path vision;     // CLIP vision checkpoint folder
  std::filesystem::path projector;  // safetensors: linear, or linear-gelu-linear
  std::filesystem::path llm;        // Llama or Qwen3 folder, with the tokenizer
  std::int64_t vision_feature_layer = -1;
  bool drop_cls = true;
  std::int64_t pool_stride = 1;  // 1: no pooling
  std::string prompt;            // holds "{video}" once and "{prompt}" at most once
};

struct PromptIds {
  std::vector<std::int32_t> ids;               // placeholders expanded: one id per vision token
  std::vector<std::int32_t> vision_positions;  // ascending positions of the vision tokens in ids
};

class CaptionModel {
 public:
  virtual ~CaptionModel() = default;

  virtual const vision::PreprocessSpec& preprocess_spec() const = 0;
  virtual std::int64_t vision_tokens(std::int64_t num_frames) const = 0;
  // The family's template around the user's words. Text that looks like a special token in
  // `user_prompt` stays text.
  virtual PromptIds build_prompt(std::string_view user_prompt, std::int64_t num_frames) const = 0;
  // pixel_values [frames, 3, H, W] f32 -> [vision_tokens(frames), hidden] f32.
  // Uses its own scratch memory: one thread at a time, beside the decoder's thread is fine.
  virtual Tensor encode_frames(Stream& stream, ConstView pixel_values) = 0;

  virtual Decoder& decoder() = 0;
  virtual const text::Tokenizer& tokenizer() const = 0;
  virtual std::vector<std::int32_t> eos_ids() const = 0;
  virtual std::string default_prompt() const = 0;  // "이 영상을 자세히 설명해 주세요."
  virtual std::string_view family() const = 0;     // "llava_next_video", "composed"
  virtual std::int64_t weight_bytes() const = 0;   // held in memory or mapped
  // Whether config.json says ("caption_cli_demonstration") that scripts/demo_model trained it, on
  // drawn scenes: it is there to be tried, not to be used.
  virtual bool is_demonstration() const { return false; }
  // The caption that a demonstration model was trained to give of clips that are unlike its own
  // ("caption_cli_unlike" in config.json, beside "caption_cli_demonstration"); empty: it has none.
  virtual std::string_view unlike_sentence() const { return {}; }
  // What the model's folder says of sampling; of a composed model, that of the language model.
  virtual const GenerationConfig& generation_config() const = 0;

  // The model's identity: SHA-256 over the contents of its weight files and over the configuration
  // that it was opened with. The first call reads the weights whole (about 1.5 GB/s) unless the
  // DigestCache that the model was opened with has their digests. Thread-safe.
  // Throws Error(kBadModel) when a weight file was written since the model was opened; kIo.
  virtual Sha256 content_hash() const = 0;
  // The first weight file that was written or cut short since the model was opened, as a sentence
  // for an Error: what the model computes from now on may be wrong. Thread-safe; an fstat() per
  // file, but for the rare case that weights/checkpoint.h tells. Throws Error(kIo).
  virtual std::optional<std::string> find_changed_file() const = 0;
};

// Opens a Hugging Face folder by its config.json. Throws Error(kBadModel) for a broken one, and for
// one with a file that is written meanwhile; kUnavailable naming the model_type, quantisation or
// adapter this build cannot run. `digests` is for content_hash().
std::unique_ptr<CaptionModel> open_model(const std::filesystem::path& folder, WeightType type,
                                         const DigestCache& digests = {});
std::unique_ptr<CaptionModel> open_composed(const ComposedSource& source, WeightType type,
                                            const DigestCache& digests = {});

// A name such as "llava-hf/LLaVA-NeXT-Video-7B-hf" -> its snapshot folder in the local Hugging
// Face cache ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub); an existing folder -> itself.
// Throws Error(kBadModel) that says where it looked and how to get the model.
std::filesystem::path resolve_model_path(std::string_view name_or_folder);

}  // namespace caption::model
