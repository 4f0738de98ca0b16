#include "model/internal/qwen_vl.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "base/mend_advice.h"
#include "model/internal/hub_model.h"

namespace caption::model {

VisionTokenIds parse_vision_token_ids(const JsonObject& config, std::int64_t vocab) {
  const auto token_id = [&](std::string_view key, std::int64_t fallback) {
    return static_cast<std::int32_t>(config.get_int(key, fallback, 0, vocab - 1));
  };
  return {.video = token_id("video_token_id", 151656),
          .start = token_id("vision_start_token_id", 151652),
          .end = token_id("vision_end_token_id", 151653)};
}

void check_prompt_tokens(const text::Tokenizer& tokenizer, const VisionTokenIds& ids) {
  check_token(tokenizer, kQwenVideoToken, ids.video, "video_token_id");
  check_token(tokenizer, "<|vision_start|>", ids.start, "vision_start_token_id");
  check_token(tokenizer, "<|vision_end|>", ids.end, "vision_end_token_id");
  require_token(tokenizer, "<|im_start|>");
  require_token(tokenizer, "<|im_end|>");
}

VisionSpec parse_qwen_tower(const JsonObject& vision_config, const QwenTowerDefaults& defaults) {
  constexpr std::int64_t kMaxExtent = std::int64_t{1} << 20;
  const std::string act = vision_config.get_string("hidden_act", defaults.activation);
  if (act != defaults.activation) {
    throw Error(ErrorCode::kUnavailable, vision_config.name() + ": hidden_act \"" + act +
                                             "\" is not supported by this build; " +
                                             std::string(defaults.activation) + " is");
  }
  if (vision_config.get_int("in_channels", 3, 1, 1024) != 3) {
    fail_unsupported(vision_config.name() +
                     ": in_channels: only RGB towers are supported by this build");
  }
  VisionSpec vision;
  vision.num_layers = vision_config.get_int("depth", defaults.num_layers, 1, 1024);
  vision.hidden = vision_config.get_int("hidden_size", defaults.hidden, 1, kMaxExtent);
  vision.intermediate =
      vision_config.get_int("intermediate_size", defaults.intermediate, 1, kMaxExtent);
  vision.num_heads = vision_config.get_int("num_heads", 16, 1, kMaxExtent);
  vision.patch_px = vision_config.get_int("patch_size", defaults.patch_px, 1, 1024);
  vision.frames_per_image = vision_config.get_int("temporal_patch_size", 2, 1, 64);
  vision.pool_stride = vision_config.get_int("spatial_merge_size", 2, 1, 64);
  vision.class_tokens = 0;
  vision.activation = Activation::kGeluTanh;
  vision.layer_norm_eps = 1e-6F;
  if (vision.hidden % vision.num_heads != 0 || vision.head_dim() % 4 != 0) {
    fail_bad_file(vision_config.name() + ": hidden_size " + std::to_string(vision.hidden) +
                  " over " + std::to_string(vision.num_heads) +
                  " heads: the width of a head must be a multiple of 4");
  }
  constexpr std::int64_t kMaxMergedWidth = std::int64_t{1} << 24;
  const std::int64_t merged_width = vision.hidden * vision.pool_stride * vision.pool_stride;
  if (merged_width > kMaxMergedWidth) {
    fail_bad_file(vision_config.name() + ": hidden_size " + std::to_string(vision.hidden) +
                  " times the square of spatial_merge_size " + std::to_string(vision.pool_stride) +
                  " must be at most " + std::to_string(kMaxMergedWidth));
  }
  return vision;
}

std::vector<std::int64_t> parse_tower_layers(const JsonObject& vision_config, std::string_view key,
                                             std::vector<std::int64_t> fallback,
                                             std::int64_t num_layers) {
  if (vision_config.has(key) && vision_config.type_of(key) != JsonType::kList) {
    fail_bad_file(vision_config.name() + ": " + std::string(key) + " must be a list of layers");
  }
  std::vector<std::int64_t> layers =
      vision_config.has(key) ? vision_config.get_ints(key) : std::move(fallback);
  std::int64_t last = -1;
  for (const std::int64_t layer : layers) {
    if (layer <= last || layer >= num_layers) {
      fail_bad_file(vision_config.name() + ": " + std::string(key) +
                    " must ascend and be below depth, " + std::to_string(num_layers) + ", found " +
                    std::to_string(layer));
    }
    last = layer;
  }
  return layers;
}

void check_out_hidden_size(const JsonObject& vision_config, std::int64_t hidden) {
  const std::int64_t out = vision_config.get_int("out_hidden_size", 3584, 1, 1 << 20);
  if (out != hidden) {
    fail_bad_file(vision_config.name() + ": out_hidden_size " + std::to_string(out) +
                  " is not the hidden_size " + std::to_string(hidden) + " of the decoder");
  }
}

VisionGrid vision_grid(const VisionSpec& tower, const vision::ImageSize& size) {
  const std::int64_t unit_px = tower.patch_px * tower.pool_stride;
  return {.rows = size.height_px / unit_px, .columns = size.width_px / unit_px};
}

}  // namespace caption::model
