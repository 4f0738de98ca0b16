// model/caption_model.h: a video captioner: preprocessing constants, prompt, vision tower and
// decoder.
//
// Each family is implemented in one file (llava_next_video.cpp, composed.cpp); open_model.cpp
// chooses among them by the model_type of config.json.
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

// The precision in which weights are held. Activations are f32 on the CPU; packed matrices round
// them when they read them (kernels/packed_weight.h).
enum class WeightType {
  kF32,   // the numbers as stored in the file
  kBF16,  // rounded to bf16
  // The matrices of the decoder's layers are quantised to 8 or 4 bits when loaded
  // (weights/quantise.h), the LM head to int8; everything else is bf16.
  kInt8,
  kInt4,
  kNf4,
  // 8-bit weights with a scale per row, multiplied by 8-bit activations: the decoder's layers, the
  // LM head, and the linear layers of tower and projector.
  kW8A8,
};

// A model whose parts were trained separately; the paths are model folders or files.
struct ComposedSource {
  std::filesystem::path vision;     // CLIP vision checkpoint folder
  std::filesystem::path projector;  // safetensors: linear, or linear-gelu-linear
  std::filesystem::path llm;        // Llama or Qwen3 folder, with the tokenizer
  std::int64_t vision_feature_layer = -1;
  bool drop_cls = true;
  std::int64_t pool_stride = 1;  // 1 means no pooling
  std::string prompt;            // contains "{video}" once and "{prompt}" at most once
};

struct PromptIds {
  std::vector<std::int32_t> ids;  // one id per vision token in place of each placeholder
  std::vector<std::int32_t> vision_positions;  // ascending positions of the vision tokens in ids
};

class CaptionModel {
 public:
  virtual ~CaptionModel() = default;

  virtual const vision::PreprocessSpec& preprocess_spec() const = 0;
  virtual std::int64_t vision_tokens(std::int64_t num_frames) const = 0;
  // Returns the family's template filled with the user's prompt. Text in `user_prompt` that looks
  // like a special token is treated as text.
  virtual PromptIds build_prompt(std::string_view user_prompt, std::int64_t num_frames) const = 0;
  // pixel_values [frames, 3, H, W] f32 -> [vision_tokens(frames), hidden] f32. Uses scratch memory
  // of the model: call it from one thread at a time; the decoder may run in another thread
  // meanwhile.
  virtual Tensor encode_frames(Stream& stream, ConstView pixel_values) = 0;

  virtual Decoder& decoder() = 0;
  virtual const text::Tokenizer& tokenizer() const = 0;
  virtual std::vector<std::int32_t> eos_ids() const = 0;
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

  // The model's identity: SHA-256 over the contents of its weight files and the configuration that
  // it was opened with. The first call reads all weights (about 1.5 GB/s) unless the DigestCache
  // that the model was opened with has their digests. Thread-safe. Throws Error(kBadModel) when a
  // weight file was written since the model was opened; kIo.
  virtual Sha256 content_hash() const = 0;
  // Returns a sentence for an Error about the first weight file that was written or cut short since
  // the model was opened; from then on the model's results may be wrong. Thread-safe. Costs an
  // fstat() per file, except in the rare case that weights/checkpoint.h describes. Throws
  // Error(kIo).
  virtual std::optional<std::string> find_changed_file() const = 0;
};

// Opens a Hugging Face folder by its config.json. Throws Error(kBadModel) for an invalid one and
// for one with a file that is written meanwhile; kUnavailable naming the model_type, quantisation
// or adapter that this build cannot run. `digests` is for content_hash().
std::unique_ptr<CaptionModel> open_model(const std::filesystem::path& folder, WeightType type,
                                         const DigestCache& digests = {});
std::unique_ptr<CaptionModel> open_composed(const ComposedSource& source, WeightType type,
                                            const DigestCache& digests = {});

// Returns the snapshot folder of a name such as "llava-hf/LLaVA-NeXT-Video-7B-hf" in the local
// Hugging Face cache ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub); an existing folder is
// returned unchanged. Throws Error(kBadModel) that names the places searched and how to get the
// model.
std::filesystem::path resolve_model_path(std::string_view name_or_folder);

}  // namespace caption::model
