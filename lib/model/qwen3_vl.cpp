// Qwen3-VL (model_type "qwen3_vl"): a vision tower of dynamic resolution, DeepStack, and Qwen3 with
// interleaved M-RoPE. The tower is qwen_vision_encoder.cpp; what Qwen2.5-VL shares is qwen_vl.cpp.
// Sources: transformers 4.57.6 modeling_qwen3_vl.py, processing_qwen3_vl.py,
// configuration_qwen3_vl.py; arXiv:2511.21631.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mend_advice.h"
#include "model/internal/chat_format.h"
#include "model/internal/chat_template.h"
#include "model/internal/hub_model.h"
#include "model/internal/mrope.h"
#include "model/internal/parts.h"
#include "model/internal/preprocessor_config.h"
#include "model/internal/qwen_vl.h"

namespace caption::model {
namespace {

// Approximate tokens of "<0.3 seconds>" and of the marks before and after the vision tokens.
constexpr std::int64_t kTextTokensPerImage = 9;

constexpr std::string_view kFamilyName = "Qwen3-VL";

// Time of the middle of image `image` in seconds, such as "0.3". Frames 4 and 5 of 30 a second have
// 0.15 between them, which is written 0.1 or 0.2 by the last bits of their quotients; whole
// microseconds instead of these give the other digit.
std::string timestamp(const ClipShape& clip, std::int64_t image, std::int64_t frames_per_image) {
  constexpr double kDefaultFps = 24;
  const auto seconds = [&](std::int64_t frame) {
    const std::int64_t at = std::min(frame, clip.num_frames - 1);
    if (clip.times_s.empty()) return static_cast<double>(at) / kDefaultFps;
    return clip.times_s.at(static_cast<std::size_t>(at));
  };
  const std::int64_t first = image * frames_per_image;
  const double middle = (seconds(first) + seconds(first + frames_per_image - 1)) / 2;
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.1f", middle);
  return {text.data(), static_cast<std::size_t>(length)};
}

const ChatFormat& chat_format() {
  static const ChatFormat kFormat = chatml_format("");
  return kFormat;
}

class Qwen3Vl final : public PartsCaptionModel {
 public:
  Qwen3Vl(Parts parts, const VisionSpec& vision, const VisionTokenIds& ids)
      : PartsCaptionModel(std::move(parts)), vision_(vision), video_id_(ids.video) {
    check_prompt_tokens(tokenizer(), ids);
  }

  PromptIds build_prompt(const Conversation& conversation, const ClipShape& clip) const override {
    const auto describe = [this](const ClipShape& shape) { return describe_video(shape); };
    PromptIds prompt =
        build_chat_prompt(tokenizer(), chat_format(), video_id_, conversation, clip, describe);
    std::vector<VisionGrid> blocks;
    for (const ClipShape& shape : clips_of(conversation, clip)) {
      blocks.insert(blocks.end(), static_cast<std::size_t>(num_images(vision_, shape.num_frames)),
                    vision_grid(vision_, preprocessed_size(shape)));
    }
    prompt.positions = mrope_positions(prompt, blocks);
    return prompt;
  }

  std::string_view family() const override { return "qwen3_vl"; }

 private:
  // Each image has its time before it.
  VideoText describe_video(const ClipShape& clip) const {
    const VisionGrid grid = vision_grid(vision_, preprocessed_size(clip));
    VideoText video{.markup = "",
                    .num_placeholders = num_images(vision_, clip.num_frames),
                    .tokens_each = grid.rows * grid.columns};
    for (std::int64_t image = 0; image < video.num_placeholders; ++image) {
      video.markup += "<" + timestamp(clip, image, vision_.frames_per_image) + " seconds>" +
                      std::string(kQwenVideoText);
    }
    return video;
  }

  VisionSpec vision_;
  std::int32_t video_id_;
};

VisionSpec parse_vision(const JsonObject& config) {
  VisionSpec vision = parse_qwen_tower(config, {.activation = "gelu_pytorch_tanh",
                                                .num_layers = 27,
                                                .hidden = 1152,
                                                .intermediate = 4304,
                                                .patch_px = 16});
  vision.num_positions = config.get_int("num_position_embeddings", 2304, 1, 1 << 20);
  vision.resize =
      vision::SmartResize{.unit_px = static_cast<int>(vision.patch_px * vision.pool_stride),
                          .frames_per_patch = static_cast<int>(vision.frames_per_image),
                          .min_pixels = 128 * 32 * 32,
                          .max_pixels = 768 * 32 * 32};
  vision.text_tokens_per_image = kTextTokensPerImage;
  vision.deepstack_layers =
      parse_tower_layers(config, "deepstack_visual_indexes", {8, 16, 24}, vision.num_layers);
  return vision;
}

TextConfig parse_text(const JsonObject& config, const VisionSpec& vision) {
  const JsonObject text_config = require_part(config, "text_config", kFamilyName);
  TextConfig text = parse_decoder_config(text_config, {.intermediate = 22016,
                                                       .num_kv_heads = 32,
                                                       .head_dim = 128,
                                                       .vocab = 151936,
                                                       .max_positions = 128000,
                                                       .rope_theta = 5e6});
  text.spec.qk_norm = true;
  text.spec.qkv_bias = text.spec.o_bias = text_config.get_bool("attention_bias", false);
  text.spec.mrope_section = parse_mrope_section(text_config, text.spec.head_dim, {24, 20, 20});
  text.spec.mrope_interleaved = true;
  text.spec.deepstack_layers = std::ssize(vision.deepstack_layers);
  if (text.spec.deepstack_layers > text.spec.num_layers) {
    fail_bad_file(config.name() + ": " + std::to_string(text.spec.deepstack_layers) +
                  " deepstack_visual_indexes for a decoder of " +
                  std::to_string(text.spec.num_layers) + " layers");
  }
  return text;
}

Blueprint make_blueprint(const JsonObject& config, const VisionSpec& vision,
                         const DecoderSpec& text) {
  check_out_hidden_size(require_part(config, "vision_config", kFamilyName), text.hidden);
  Blueprint blueprint;
  add_qwen3_vl_tower(blueprint, vision, text.hidden, {"model.visual.", "visual."});
  add_decoder(blueprint, text, hub_text_prefixes(), hub_head_prefixes());
  return blueprint;
}

VisionSpec read_vision(const JsonObject& config) {
  return parse_vision(require_part(config, "vision_config", kFamilyName));
}

Blueprint describe_qwen3_vl(const JsonObject& config) {
  const VisionSpec vision = read_vision(config);
  return make_blueprint(config, vision, parse_text(config, vision).spec);
}

std::unique_ptr<CaptionModel> open_qwen3_vl(const ModelFolder& folder, const JsonObject& config,
                                            weights::WeightFormat format, Parts parts) {
  const VisionSpec vision = read_vision(config);
  TextConfig text = parse_text(config, vision);
  const VisionTokenIds ids = parse_vision_token_ids(config, text.spec.vocab);
  std::vector<std::unique_ptr<weights::Source>> sources;
  sources.push_back(folder.open_weights());
  tie_missing_head(config, *sources.front(), text);
  parts.preprocess = read_preprocess_spec(folder, qwen3_vl_preprocessing(vision));
  place_hub_parts(folder, text,
                  {make_blueprint(config, vision, text.spec), std::move(sources), format}, parts);
  warn_of_other_template(read_chat_template(folder, kQwenVideoToken), chat_format(),
                         kQwenVideoText);
  return std::make_unique<Qwen3Vl>(std::move(parts), vision, ids);
}

}  // namespace

const Family kQwen3Vl = {
    .model_type = "qwen3_vl", .describe = describe_qwen3_vl, .open = open_qwen3_vl};

}  // namespace caption::model
