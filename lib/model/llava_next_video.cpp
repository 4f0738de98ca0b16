// LLaVA-NeXT-Video (model_type "llava_next_video"): CLIP, pooling over patches, a two-layer
// projector, and Llama or Qwen3. Everything specific to this family is in this file. Source:
// transformers 4.57 modeling_llava_next_video.py; llava-hf on huggingface.co.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "model/internal/parts.h"
#include "model/internal/preprocessor_config.h"
#include "model/internal/prompt.h"

namespace caption::model {
namespace {

using namespace std::string_view_literals;

// Prefixes of the parts' tensors: as transformers >= 4.52 saves them, as the llava-hf repositories
// hold them, and both without CLIP's inner level (transformers 5).
constexpr std::array kVisionPrefixes = {"model.vision_tower.vision_model."sv,
                                        "vision_tower.vision_model."sv, "model.vision_tower."sv,
                                        "vision_tower."sv};
constexpr std::array kTextPrefixes = {"model.language_model."sv, "language_model.model."sv};
constexpr std::array kHeadPrefixes = {""sv, "language_model."sv};
constexpr std::array kProjectorPrefixes = {"model.multi_modal_projector."sv,
                                           "multi_modal_projector."sv};

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

  PromptIds build_prompt(std::string_view user_prompt, std::int64_t num_frames) const override {
    const PromptFrame frame = {
        .head = "USER: <video>", .glue_before = "\n", .glue_after = " ASSISTANT:", .tail = ""};
    return expand_placeholder(encode_prompt(tokenizer(), frame, user_prompt), video_id_,
                              vision_tokens(num_frames));
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

Projector load_projector(WeightStore& store, const JsonObject& config, std::int64_t vision_dim,
                         std::int64_t text_dim) {
  const std::string prefix = store.find_prefix(kProjectorPrefixes, "linear_1.weight");
  const auto bias = config.get_bool("multimodal_projector_bias", true)
                        ? WeightStore::Bias::kRequired
                        : WeightStore::Bias::kNone;
  return {.linear_1 = store.require_linear(prefix + "linear_1", text_dim, vision_dim, bias),
          .linear_2 = store.require_linear(prefix + "linear_2", text_dim, text_dim, bias),
          .activation = parse_activation(config, "projector_hidden_act", "gelu")};
}

JsonObject require_part(const JsonObject& config, std::string_view key) {
  if (auto part = config.get_object(key)) return *part;
  throw Error(ErrorCode::kBadModel, config.name() + ": " + std::string(key) +
                                        " is missing; this is no LLaVA-NeXT-Video checkpoint");
}

std::unique_ptr<VisionEncoder> load_encoder(WeightStore& store, const JsonObject& config,
                                            std::int64_t text_dim) {
  const std::string strategy = config.get_string("vision_feature_select_strategy", "default");
  if (strategy != "default") {
    // "full" keeps the class token, which has no place in the pooled grid.
    throw Error(ErrorCode::kUnavailable, config.name() + ": vision_feature_select_strategy \"" +
                                             strategy + "\" is not supported; default is");
  }
  const ClipVisionConfig clip = parse_clip_vision_config(require_part(config, "vision_config"));
  const TokenSelection selection = {
      .class_token = TokenSelection::ClassToken::kDrop,
      .pooling = parse_pooling(config),
      .pool_stride = config.get_int("spatial_pool_stride", 2, 1, 4096)};
  const std::string prefix = store.find_prefix(kVisionPrefixes, "embeddings.class_embedding");
  ClipVisionTower tower(store, prefix, clip, layers_to_run(clip, parse_feature_layer(config)));
  return std::make_unique<VisionEncoder>(std::move(tower), selection,
                                         load_projector(store, config, clip.hidden, text_dim));
}

bool has_head(const WeightStore& store) {
  return std::any_of(kHeadPrefixes.begin(), kHeadPrefixes.end(), [&](std::string_view prefix) {
    return store.checkpoint().find(std::string(prefix) + "lm_head.weight").has_value();
  });
}

std::unique_ptr<TransformerDecoder> load_decoder(WeightStore& store, const TextConfig& text) {
  const std::string prefix = store.find_prefix(kTextPrefixes, "embed_tokens.weight");
  const std::string head =
      text.tied_embeddings ? "" : store.find_prefix(kHeadPrefixes, "lm_head.weight");
  return std::make_unique<TransformerDecoder>(store, prefix, head + "lm_head", text);
}

}  // namespace

std::unique_ptr<CaptionModel> open_llava_next_video(const std::filesystem::path& folder,
                                                    const JsonObject& config, WeightType type,
                                                    Parts parts) {
  reject_quantised(config);
  TextConfig text = parse_text_config(require_part(config, "text_config"));
  const std::int64_t default_video_id = config.get_int("video_token_id", 32000, 0, text.vocab - 1);
  const std::int64_t video_id =
      config.get_int("video_token_index", default_video_id, 0, text.vocab - 1);

  parts.stores.push_back(std::make_unique<WeightStore>(weights::Checkpoint::open(folder), type));
  WeightStore& store = *parts.stores.back();
  // The enclosing configuration decides only when no head is stored: the reference would then
  // initialise the missing head at random.
  if (!has_head(store) && config.get_bool("tie_word_embeddings", false)) {
    text.tied_embeddings = true;
  }
  parts.is_demonstration = config.get_bool("caption_cli_demonstration", false);
  if (parts.is_demonstration) parts.unlike_sentence = config.get_string("caption_cli_unlike", "");
  parts.preprocess = read_preprocess_spec(folder);
  parts.encoder = load_encoder(store, config, text.hidden);
  parts.decoder = load_decoder(store, text);
  parts.tokenizer = text::open_tokenizer(folder);
  parts.generation = read_generation_config(folder);
  parts.eos_ids = parts.generation.eos_ids.empty() ? text.eos_ids : parts.generation.eos_ids;
  if (parts.eos_ids.empty() && parts.tokenizer->eos_id()) {
    parts.eos_ids = {*parts.tokenizer->eos_id()};
  }
  return std::make_unique<LlavaNextVideo>(std::move(parts), static_cast<std::int32_t>(video_id));
}

}  // namespace caption::model
