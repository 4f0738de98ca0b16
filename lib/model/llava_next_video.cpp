// LLaVA-NeXT-Video (model_type "llava_next_video"): CLIP, pooling over patches, a two-layer
// projector, and a language model: Vicuna (7B), Mistral (7B-32K) or Yi (34B). Everything specific
// to this family is in this file. Source: transformers 4.57 modeling_llava_next_video.py and
// convert_llava_next_video_weights_to_hf.py; llava-hf on huggingface.co.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mend_advice.h"
#include "model/internal/chat_format.h"
#include "model/internal/chat_template.h"
#include "model/internal/hub_model.h"
#include "model/internal/parts.h"
#include "model/internal/preprocessor_config.h"
#include "model/internal/vision_config.h"
#include "model/vit_blueprint.h"

namespace caption::model {
namespace {

constexpr std::string_view kFamilyName = "LLaVA-NeXT-Video";
constexpr std::string_view kVideoToken = "<video>";

bool has(const ChatTemplate& chat_template, std::string_view part) {
  return chat_template.text.find(part) != std::string::npos;
}

// 7B. The converter's template writes a system prompt where it begins a conversation, and again as
// the text of a message.
ChatFormat vicuna_format(const ChatTemplate& chat_template) {
  return {.system_rule = has(chat_template, "message['content'][0]['text']")
                             ? ChatFormat::System::kTwice
                             : ChatFormat::System::kMessage,
          .system = {.glue_after = " "},
          .user = {.head = "USER: ", .glue_after = " "},
          .after_video = "\n",
          .assistant = {.glue_before = "ASSISTANT: ", .glue_after = " "},
          .generation = {.glue_before = "ASSISTANT:"},
          .literals = {"ASSISTANT:"}};
}

// 7B-32K. The converter's template ends a caption with "<\s>".
ChatFormat mistral_format(const ChatTemplate& chat_template) {
  return {.system_rule = ChatFormat::System::kRefused,
          .user = {.head = "[INST] ", .glue_after = " [/INST]"},
          .after_video = "\n",
          .assistant = has(chat_template, "</s>")
                           ? PromptFrame{.glue_before = " ", .tail = "</s> "}
                           : PromptFrame{.glue_before = " ", .glue_after = "<\\s> "},
          .literals = {"[INST] ", " [/INST]"}};
}

// The sizes of this family differ in their chat template. A folder without one is told apart by its
// language model and its tokenizer.
ChatFormat choose_format(const ChatTemplate& chat_template, const JsonObject& text_config,
                         const text::Tokenizer& tokenizer) {
  if (has(chat_template, "[INST]")) return mistral_format(chat_template);
  if (has(chat_template, "<|im_start|>")) return chatml_format("\n");
  if (!chat_template.text.empty()) return vicuna_format(chat_template);
  if (text_config.get_string("model_type", "") == "mistral") return mistral_format(chat_template);
  return tokenizer.find_token("<|im_start|>") ? chatml_format("\n") : vicuna_format(chat_template);
}

class LlavaNextVideo final : public PartsCaptionModel {
 public:
  LlavaNextVideo(Parts parts, const VideoTokenId& video_id, ChatFormat format)
      : PartsCaptionModel(std::move(parts)), video_id_(video_id.id), format_(std::move(format)) {
    check_token(tokenizer(), kVideoToken, video_id.id, video_id.key);
  }

  PromptIds build_prompt(const Conversation& conversation, const ClipShape& clip) const override {
    const auto describe = [this](const ClipShape& shape) {
      return VideoText{.markup = std::string(kVideoToken), .tokens_each = vision_tokens(shape)};
    };
    return build_chat_prompt(tokenizer(), format_, video_id_, conversation, clip, describe);
  }

  std::string_view family() const override { return "llava_next_video"; }

 private:
  std::int32_t video_id_;
  ChatFormat format_;
};

PatchMerge parse_pooling(const JsonObject& config) {
  const std::string mode = config.get_string("spatial_pool_mode", "average");
  if (mode == "average") return PatchMerge::kMean;
  if (mode == "max") return PatchMerge::kMax;
  if (mode == "conv") return PatchMerge::kConvolution;
  throw Error(ErrorCode::kUnavailable,
              config.name() + ": spatial_pool_mode \"" + mode +
                  "\" is not supported by this build; average, max and conv are");
}

VisionSpec read_vision_spec(const JsonObject& config, std::int64_t text_hidden) {
  VisionSpec vision =
      parse_vision_config(require_part(config, "vision_config", kFamilyName), "clip_vision_model");
  check_feature_strategy(config, vision, "default");
  set_feature_layers(vision, parse_feature_layers(config, -2), config.name());
  vision.merge = parse_pooling(config);
  vision.pool_stride = config.get_int("spatial_pool_stride", 2, 1, 4096);
  if (vision.merge == PatchMerge::kConvolution && !vision.feature_layers.empty()) {
    fail_bad_file(config.name() +
                  ": vision_feature_layer lists several layers, and spatial_pool_mode "
                  "\"conv\" takes the channels of one");
  }
  const std::int64_t channels = config.get_int("spatial_pool_out_channels", 1024, 1, 1 << 20);
  if (vision.merge == PatchMerge::kConvolution && channels != vision.hidden) {
    fail_bad_file(config.name() + ": spatial_pool_out_channels is " + std::to_string(channels) +
                  ", the projector takes " + std::to_string(vision.hidden));
  }
  const bool has_bias = config.get_bool("multimodal_projector_bias", true);
  vision.projector = {{.out = text_hidden, .in = vision.feature_columns(), .has_bias = has_bias},
                      {.out = text_hidden, .in = text_hidden, .has_bias = has_bias}};
  vision.projector_activation = parse_activation(config, "projector_hidden_act", "gelu");
  return vision;
}

// The convolution that pools the patches of a window.
void add_pooling(Blueprint& blueprint, const VisionSpec& vision) {
  blueprint.add_group({.part = Part::kProjector,
                       .prefixes = {"model.vision_resampler.pool.", "vision_resampler.pool."}});
  blueprint.merge.weight = blueprint.add(
      {.name = "weight",
       .shape = {vision.hidden, vision.hidden, vision.pool_stride, vision.pool_stride},
       .role = Role::kEncoderLinear});
  blueprint.merge.bias = blueprint.add_vector("bias", vision.hidden, Fill::kZero);
}

Blueprint make_blueprint(const JsonObject& config, const DecoderSpec& text) {
  const VisionSpec vision = read_vision_spec(config, text.hidden);
  Blueprint blueprint;
  add_clip_tower(blueprint, vision, hub_tower_prefixes());
  if (vision.merge == PatchMerge::kConvolution) add_pooling(blueprint, vision);
  add_projector(blueprint, vision, {"linear_1.", "linear_2."}, hub_projector_prefixes());
  add_decoder(blueprint, text, hub_text_prefixes(), hub_head_prefixes());
  // LlavaNextVideoModel has the newline for images alone.
  for (const char* const name : {"model.image_newline", "image_newline"}) {
    blueprint.ignored.push_back({.source = 0, .prefix = name});
  }
  return blueprint;
}

Blueprint describe_llava(const JsonObject& config) {
  return make_blueprint(config,
                        parse_text_config(require_part(config, "text_config", kFamilyName)).spec);
}

std::unique_ptr<CaptionModel> open_llava(const ModelFolder& folder, const JsonObject& config,
                                         weights::WeightFormat format, Parts parts) {
  const JsonObject text_config = require_part(config, "text_config", kFamilyName);
  TextConfig text = parse_text_config(text_config);
  const VideoTokenId video_id = parse_video_token_id(config, 32000, text.spec.vocab);

  std::vector<std::unique_ptr<weights::Source>> sources;
  sources.push_back(folder.open_weights());
  tie_missing_head(config, *sources.front(), text);
  parts.is_demonstration = config.get_bool("caption_cli_demonstration", false);
  if (parts.is_demonstration) parts.unlike_sentence = config.get_string("caption_cli_unlike", "");
  parts.preprocess = read_preprocess_spec(folder);
  place_hub_parts(folder, text, {make_blueprint(config, text.spec), std::move(sources), format},
                  parts);
  const ChatTemplate chat_template = read_chat_template(folder, kVideoToken);
  ChatFormat chat = choose_format(chat_template, text_config, *parts.tokenizer);
  warn_of_other_template(chat_template, chat, std::string(kVideoToken) + chat.after_video);
  return std::make_unique<LlavaNextVideo>(std::move(parts), video_id, std::move(chat));
}

}  // namespace

const Family kLlavaNextVideo = {
    .model_type = "llava_next_video", .describe = describe_llava, .open = open_llava};

}  // namespace caption::model
