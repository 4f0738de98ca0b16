// LLaVA-OneVision (model_type "llava_onevision"): SigLIP, a two-layer projector, bilinear resizing
// of each frame's grid, and Qwen2; VARCO-VISION 2.0 is the same class with SigLIP 2 and Qwen3.
// The tower is vit_tower.cpp. Source: transformers 4.57
// modeling_llava_onevision.py, processing_llava_onevision.py and
// convert_llava_onevision_weights_to_hf.py; llava-hf on huggingface.co.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/internal/chat_format.h"
#include "model/internal/chat_template.h"
#include "model/internal/hub_model.h"
#include "model/internal/parts.h"
#include "model/internal/preprocessor_config.h"
#include "model/internal/vision_config.h"
#include "model/vit_blueprint.h"

namespace caption::model {
namespace {

constexpr std::string_view kFamilyName = "LLaVA-OneVision";
constexpr std::string_view kVideoToken = "<video>";
constexpr std::int64_t kResizeStride = 2;  // apply_pooling() halves the grid, rounding up

// The format of the first repositories on the hub: a space after the role, a line break before the
// words and none after <|im_end|>.
ChatFormat first_format() {
  const auto message = [](const std::string& role) {
    return PromptFrame{
        .head = "<|im_start|>" + role + " ", .glue_before = "\n", .tail = "<|im_end|>"};
  };
  return {.system = message("system"),
          .user = message("user"),
          .assistant = message("assistant"),
          .generation = {.head = "<|im_start|>assistant\n"},
          .literals = {"<|im_start|>", "<|im_end|>", "<|im_start|>assistant\n"}};
}

ChatFormat choose_format(const ChatTemplate& chat_template) {
  const bool is_first = chat_template.text.find("message['role'] + ' '") != std::string::npos;
  ChatFormat format = is_first ? first_format() : chatml_format("\n");
  warn_of_other_template(chat_template, format, std::string(kVideoToken) + format.after_video);
  return format;
}

class LlavaOnevision final : public PartsCaptionModel {
 public:
  LlavaOnevision(Parts parts, const VideoTokenId& video_id, ChatFormat format)
      : PartsCaptionModel(std::move(parts)), video_id_(video_id.id), format_(std::move(format)) {
    check_token(tokenizer(), kVideoToken, video_id.id, video_id.key);
    require_token(tokenizer(), "<|im_start|>");
    require_token(tokenizer(), "<|im_end|>");
  }

  PromptIds build_prompt(const Conversation& conversation, const ClipShape& clip) const override {
    const auto describe = [this](const ClipShape& shape) {
      return VideoText{.markup = std::string(kVideoToken), .tokens_each = vision_tokens(shape)};
    };
    return build_chat_prompt(tokenizer(), format_, video_id_, conversation, clip, describe);
  }

  std::string_view family() const override { return "llava_onevision"; }

 private:
  std::int32_t video_id_;
  ChatFormat format_;
};

VisionSpec read_vision_spec(const JsonObject& config, std::int64_t text_hidden) {
  VisionSpec vision = parse_vision_config(require_part(config, "vision_config", kFamilyName),
                                          "siglip_vision_model");
  check_feature_strategy(config, vision, "full");
  set_feature_layers(vision, parse_feature_layers(config, -1), config.name());
  vision.resize_stride = kResizeStride;
  vision.ends_with_newline = true;
  const bool has_bias = config.get_bool("multimodal_projector_bias", true);
  vision.projector = {{.out = text_hidden, .in = vision.feature_columns(), .has_bias = has_bias},
                      {.out = text_hidden, .in = text_hidden, .has_bias = has_bias}};
  vision.projector_activation = parse_activation(config, "projector_hidden_act", "gelu");
  return vision;
}

Blueprint make_blueprint(const JsonObject& config, const DecoderSpec& text) {
  const VisionSpec vision = read_vision_spec(config, text.hidden);
  Blueprint blueprint;
  add_clip_tower(blueprint, vision, hub_tower_prefixes());
  add_projector(blueprint, vision, {"linear_1.", "linear_2."}, hub_projector_prefixes());
  blueprint.add_group({.part = Part::kProjector, .prefixes = {"model.", ""}});
  blueprint.newline = blueprint.add_vector("image_newline", text.hidden);
  add_decoder(blueprint, text, hub_text_prefixes(), hub_head_prefixes());
  return blueprint;
}

TextConfig parse_text(const JsonObject& config) {
  return parse_text_config(require_part(config, "text_config", kFamilyName), "qwen2");
}

Blueprint describe_onevision(const JsonObject& config) {
  return make_blueprint(config, parse_text(config).spec);
}

std::unique_ptr<CaptionModel> open_onevision(const ModelFolder& folder, const JsonObject& config,
                                             weights::WeightFormat format, Parts parts) {
  TextConfig text = parse_text(config);
  const VideoTokenId video_id = parse_video_token_id(config, 151647, text.spec.vocab);

  std::vector<std::unique_ptr<weights::Source>> sources;
  sources.push_back(folder.open_weights());
  tie_missing_head(config, *sources.front(), text);
  parts.preprocess = read_preprocess_spec(folder, llava_onevision_preprocessing());
  place_hub_parts(folder, text, {make_blueprint(config, text.spec), std::move(sources), format},
                  parts);
  return std::make_unique<LlavaOnevision>(std::move(parts), video_id,
                                          choose_format(read_chat_template(folder, kVideoToken)));
}

}  // namespace

const Family kLlavaOnevision = {
    .model_type = "llava_onevision", .describe = describe_onevision, .open = open_onevision};

}  // namespace caption::model
