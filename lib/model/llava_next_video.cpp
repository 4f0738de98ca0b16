// LLaVA-NeXT-Video (model_type "llava_next_video"): CLIP, pooling over patches, a two-layer
// projector, and Llama or Qwen3. Everything specific to this family is in this file. Source:
// transformers 4.57 modeling_llava_next_video.py; llava-hf on huggingface.co.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/internal/parts.h"
#include "model/internal/preprocessor_config.h"
#include "model/internal/prompt.h"
#include "weights/checkpoint.h"

namespace caption::model {
namespace {

// Prefixes of the parts' tensors: as transformers >= 4.52 saves them, as the llava-hf repositories
// hold them, and both without CLIP's inner level (transformers 5).
const std::vector<std::string> kVisionPrefixes = {"model.vision_tower.vision_model.",
                                                  "vision_tower.vision_model.",
                                                  "model.vision_tower.", "vision_tower."};
const std::vector<std::string> kTextPrefixes = {"model.language_model.", "language_model.model."};
const std::vector<std::string> kHeadPrefixes = {"", "language_model."};
const std::vector<std::string> kProjectorPrefixes = {"model.multi_modal_projector.",
                                                     "multi_modal_projector."};

constexpr std::string_view kVideoToken = "<video>";

class LlavaNextVideo final : public PartsCaptionModel {
 public:
  LlavaNextVideo(Parts parts, std::int32_t video_id)
      : PartsCaptionModel(std::move(parts)), video_id_(video_id) {
    if (tokenizer().find_token(kVideoToken) != video_id) {
      throw Error(ErrorCode::kBadModel, "the tokenizer is another model's: its <video> has " +
                                            describe(tokenizer().find_token(kVideoToken)) +
                                            ", config.json's video_token_index is " +
                                            std::to_string(video_id));
    }
  }

  PromptIds build_prompt(std::string_view user_prompt, const ClipShape& clip) const override {
    const PromptFrame frame = {
        .head = "USER: <video>", .glue_before = "\n", .glue_after = " ASSISTANT:", .tail = ""};
    return expand_placeholder(encode_prompt(tokenizer(), frame, user_prompt), video_id_,
                              vision_tokens(clip));
  }

  std::string_view family() const override { return "llava_next_video"; }

 private:
  static std::string describe(std::optional<text::TokenId> id) {
    return id ? "id " + std::to_string(*id) : "no id";
  }

  std::int32_t video_id_;
};

kernels::Pooling parse_pooling(const JsonObject& config) {
  const std::string mode = config.get_string("spatial_pool_mode", "average");
  if (mode == "average") return kernels::Pooling::kMean;
  if (mode == "max") return kernels::Pooling::kMax;
  throw Error(ErrorCode::kUnavailable,
              config.name() + ": spatial_pool_mode \"" + mode +
                  "\" is not supported by this build; average and max are");
}

std::int64_t parse_feature_layer(const JsonObject& config) {
  const std::vector<std::int64_t> layers = config.get_ints("vision_feature_layer");
  if (layers.size() > 1) {
    throw Error(ErrorCode::kUnavailable,
                config.name() +
                    ": vision_feature_layer: several layers side by side are not supported by "
                    "this build");
  }
  return layers.empty() ? -2 : layers.front();
}

JsonObject require_part(const JsonObject& config, std::string_view key) {
  if (auto part = config.get_object(key)) return *part;
  throw Error(ErrorCode::kBadModel, config.name() + ": " + std::string(key) +
                                        " is missing; this is no LLaVA-NeXT-Video checkpoint");
}

VisionSpec read_vision_spec(const JsonObject& config, std::int64_t text_hidden) {
  const std::string strategy = config.get_string("vision_feature_select_strategy", "default");
  if (strategy != "default") {
    // "full" keeps the class token, which has no place in the pooled grid.
    throw Error(ErrorCode::kUnavailable, config.name() + ": vision_feature_select_strategy \"" +
                                             strategy + "\" is not supported; default is");
  }
  VisionSpec vision = parse_clip_vision_config(require_part(config, "vision_config"));
  vision.num_layers = layers_to_run(vision, parse_feature_layer(config));
  vision.pooling = parse_pooling(config);
  vision.pool_stride = config.get_int("spatial_pool_stride", 2, 1, 4096);
  const bool has_bias = config.get_bool("multimodal_projector_bias", true);
  vision.projector = {{.out = text_hidden, .in = vision.hidden, .has_bias = has_bias},
                      {.out = text_hidden, .in = text_hidden, .has_bias = has_bias}};
  vision.projector_activation = parse_activation(config, "projector_hidden_act", "gelu");
  return vision;
}

Blueprint make_blueprint(const JsonObject& config, const DecoderSpec& text) {
  const VisionSpec vision = read_vision_spec(config, text.hidden);
  Blueprint blueprint;
  add_clip_tower(blueprint, vision, kVisionPrefixes);
  add_projector(blueprint, vision, {"linear_1.", "linear_2."}, kProjectorPrefixes);
  add_decoder(blueprint, text, kTextPrefixes, kHeadPrefixes);
  return blueprint;
}

Blueprint describe_llava(const JsonObject& config) {
  return make_blueprint(config, parse_text_config(require_part(config, "text_config")).spec);
}

bool has_head(const weights::Source& source) {
  return std::any_of(kHeadPrefixes.begin(), kHeadPrefixes.end(), [&](const std::string& prefix) {
    return source.has(prefix + "lm_head.weight");
  });
}

std::unique_ptr<CaptionModel> open_llava(const std::filesystem::path& folder,
                                         const JsonObject& config, weights::WeightFormat format,
                                         Parts parts) {
  reject_quantised(config);
  TextConfig text = parse_text_config(require_part(config, "text_config"));
  const std::int64_t default_video_id =
      config.get_int("video_token_id", 32000, 0, text.spec.vocab - 1);
  const std::int64_t video_id =
      config.get_int("video_token_index", default_video_id, 0, text.spec.vocab - 1);

  std::vector<std::unique_ptr<weights::Source>> sources;
  sources.push_back(std::make_unique<weights::Checkpoint>(weights::Checkpoint::open(folder)));
  // The enclosing configuration decides only when no head is stored: the reference would then
  // initialise the missing head at random.
  if (!has_head(*sources.front()) && config.get_bool("tie_word_embeddings", false)) {
    text.spec.tied_embeddings = true;
  }
  parts.is_demonstration = config.get_bool("caption_cli_demonstration", false);
  if (parts.is_demonstration) parts.unlike_sentence = config.get_string("caption_cli_unlike", "");
  parts.preprocess = read_preprocess_spec(folder);
  place_parts(parts, make_blueprint(config, text.spec), std::move(sources), format);
  parts.tokenizer = text::open_tokenizer(folder);
  parts.generation = read_generation_config(folder);
  parts.eos_ids = parts.generation.eos_ids.empty() ? text.eos_ids : parts.generation.eos_ids;
  if (parts.eos_ids.empty() && parts.tokenizer->eos_id()) {
    parts.eos_ids = {*parts.tokenizer->eos_id()};
  }
  return std::make_unique<LlavaNextVideo>(std::move(parts), static_cast<std::int32_t>(video_id));
}

}  // namespace

const Family kLlavaNextVideo = {
    .model_type = "llava_next_video", .describe = describe_llava, .open = open_llava};

}  // namespace caption::model
