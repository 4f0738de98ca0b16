// Qwen2.5-VL (model_type "qwen2_5_vl"): a vision tower of dynamic resolution with window attention,
// and Qwen2 with M-RoPE. The tower is qwen_vision_encoder.cpp; qwen_vl.cpp serves Qwen3-VL too.
// Sources: transformers 4.57.6 modeling_qwen2_5_vl.py, processing_qwen2_5_vl.py,
// configuration_qwen2_5_vl.py, models/qwen2_vl/video_processing_qwen2_vl.py; arXiv:2502.13923.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mend_advice.h"
#include "model/internal/chat_format.h"
#include "model/internal/chat_template.h"
#include "model/internal/config.h"
#include "model/internal/hub_model.h"
#include "model/internal/mrope.h"
#include "model/internal/parts.h"
#include "model/internal/preprocessor_config.h"
#include "model/internal/qwen_vl.h"

namespace caption::model {
namespace {

constexpr std::string_view kFamilyName = "Qwen2.5-VL";

// The reference's second_per_grid_t, frames per image over frames per second, which it casts to a
// whole number. The frames per second are those at which the video was sampled, its sampled frames
// over its duration; where that is not known, the processor's default. Durations are sums of whole
// microseconds, whose errors must not turn a whole second into the one below it.
std::int64_t seconds_per_image(const ClipShape& clip, std::int64_t frames_per_image) {
  constexpr std::int64_t kDefaultFps = 2;
  constexpr double kErrorS = 1e-5;
  if (clip.duration_us <= 0) return frames_per_image / kDefaultFps;
  const double seconds_per_frame =
      static_cast<double>(clip.duration_us) / 1e6 / static_cast<double>(clip.num_frames);
  return static_cast<std::int64_t>(seconds_per_frame * static_cast<double>(frames_per_image) +
                                   kErrorS);
}

// The chat template puts a system prompt before a conversation without one.
const ChatFormat& chat_format() {
  static const ChatFormat kFormat = [] {
    ChatFormat format = chatml_format("");
    format.default_system = "You are a helpful assistant.";
    return format;
  }();
  return kFormat;
}

class Qwen25Vl final : public PartsCaptionModel {
 public:
  Qwen25Vl(Parts parts, const VisionSpec& vision, const VisionTokenIds& ids,
           std::int64_t tokens_per_second)
      : PartsCaptionModel(std::move(parts)),
        vision_(vision),
        video_id_(ids.video),
        tokens_per_second_(tokens_per_second) {
    check_prompt_tokens(tokenizer(), ids);
  }

  PromptIds build_prompt(const Conversation& conversation, const ClipShape& clip) const override {
    const auto describe = [this](const ClipShape& shape) {
      const VisionGrid grid = grid_of(shape);
      return VideoText{.markup = std::string(kQwenVideoText),
                       .tokens_each = grid.images * grid.rows * grid.columns};
    };
    PromptIds prompt =
        build_chat_prompt(tokenizer(), chat_format(), video_id_, conversation, clip, describe);
    std::vector<VisionGrid> blocks;
    for (const ClipShape& shape : clips_of(conversation, clip)) blocks.push_back(grid_of(shape));
    prompt.positions = mrope_positions(prompt, blocks);
    return prompt;
  }

  std::string_view family() const override { return "qwen2_5_vl"; }

 private:
  VisionGrid grid_of(const ClipShape& clip) const {
    VisionGrid grid = vision_grid(vision_, preprocessed_size(clip));
    grid.images = num_images(vision_, clip.num_frames);
    grid.time_step = seconds_per_image(clip, vision_.frames_per_image) * tokens_per_second_;
    return grid;
  }

  VisionSpec vision_;
  std::int32_t video_id_;
  std::int64_t tokens_per_second_;
};

VisionSpec read_vision(const JsonObject& config) {
  constexpr std::int64_t kUnitPixels = 28 * 28;
  const JsonObject vision_config = require_part(config, "vision_config", kFamilyName);
  VisionSpec vision = parse_qwen_tower(vision_config, {.activation = "silu",
                                                       .num_layers = 32,
                                                       .hidden = 3584,
                                                       .intermediate = 3420,
                                                       .patch_px = 14});
  const std::int64_t unit_px = vision.patch_px * vision.pool_stride;
  vision.resize = vision::SmartResize{.unit_px = static_cast<int>(unit_px),
                                      .frames_per_patch = static_cast<int>(vision.frames_per_image),
                                      .min_pixels = 128 * kUnitPixels,
                                      .max_pixels = 768 * kUnitPixels,
                                      .counts_clip = false};
  const std::int64_t window_px = vision_config.get_int("window_size", 112, 1, 1 << 20);
  vision.qwen = {.norm = Norm::kRms, .gated_mlp = true, .window = window_px / unit_px};
  vision.full_attention_layers = parse_tower_layers(vision_config, "fullatt_block_indexes",
                                                    {7, 15, 23, 31}, vision.num_layers);
  if (vision.qwen.window < 1) {
    fail_bad_file(vision_config.name() + ": window_size " + std::to_string(window_px) +
                  " is less than a merged patch, " + std::to_string(unit_px) + " pixels");
  }
  return vision;
}

// Checkpoints from the hub have the text model's keys in the root of the configuration.
JsonObject text_config_of(const JsonObject& config) {
  const auto text_config = config.get_object("text_config");
  return text_config ? *text_config : config;
}

TextConfig read_text(const JsonObject& config) {
  const JsonObject text_config = text_config_of(config);
  TextConfig text = parse_decoder_config(text_config, {.intermediate = 29568,
                                                       .num_kv_heads = 8,
                                                       .vocab = 152064,
                                                       .max_positions = 32768,
                                                       .rope_theta = 1e6,
                                                       .rms_norm_eps = 1e-5});
  text.spec.qkv_bias = true;
  text.spec.mrope_section = parse_mrope_section(text_config, text.spec.head_dim, {16, 24, 24});
  constexpr std::int64_t kMaxWindowLayers = 80;
  parse_layer_windows(text_config, text.spec, kMaxWindowLayers);
  return text;
}

Blueprint make_blueprint(const JsonObject& config, const VisionSpec& vision,
                         const DecoderSpec& text) {
  check_out_hidden_size(require_part(config, "vision_config", kFamilyName), text.hidden);
  Blueprint blueprint;
  add_qwen2_5_vl_tower(blueprint, vision, text.hidden, {"model.visual.", "visual."});
  add_decoder(blueprint, text, {"model.language_model.", "model."}, {""});
  return blueprint;
}

Blueprint describe_qwen2_5_vl(const JsonObject& config) {
  return make_blueprint(config, read_vision(config), read_text(config).spec);
}

std::unique_ptr<CaptionModel> open_qwen2_5_vl(const ModelFolder& folder, const JsonObject& config,
                                              weights::WeightFormat format, Parts parts) {
  const VisionSpec vision = read_vision(config);
  TextConfig text = read_text(config);
  const VisionTokenIds ids = parse_vision_token_ids(config, text.spec.vocab);
  const std::int64_t tokens_per_second =
      require_part(config, "vision_config", kFamilyName).get_int("tokens_per_second", 4, 0, 1000);
  std::vector<std::unique_ptr<weights::Source>> sources;
  sources.push_back(folder.open_weights());
  tie_missing_head(config, *sources.front(), text);
  parts.preprocess = read_preprocess_spec(folder, qwen2_5_vl_preprocessing(vision));
  place_hub_parts(folder, text,
                  {make_blueprint(config, vision, text.spec), std::move(sources), format}, parts);
  warn_of_other_template(read_chat_template(folder, kQwenVideoToken), chat_format(),
                         kQwenVideoText);
  return std::make_unique<Qwen25Vl>(std::move(parts), vision, ids, tokens_per_second);
}

}  // namespace

const Family kQwen25Vl = {
    .model_type = "qwen2_5_vl", .describe = describe_qwen2_5_vl, .open = open_qwen2_5_vl};

}  // namespace caption::model
