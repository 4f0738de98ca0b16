// model/internal/qwen_vl.h: what the families of Qwen-VL share. Sources: transformers 4.57.6
// configuration_qwen2_5_vl.py, configuration_qwen3_vl.py.
//
// All parsers throw Error(kBadModel) for an impossible value and Error(kUnavailable) for a valid
// one that this build cannot run; both name the file and the key.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "model/internal/mrope.h"
#include "model/vision_spec.h"
#include "text/tokenizer.h"

namespace caption::model {

inline constexpr std::string_view kQwenVideoToken = "<|video_pad|>";
// What the chat templates write in the place of a video.
inline constexpr std::string_view kQwenVideoText = "<|vision_start|><|video_pad|><|vision_end|>";

// Ids of the tokens around and in the place of the vision tokens.
struct VisionTokenIds {
  std::int32_t video = 0;
  std::int32_t start = 0;
  std::int32_t end = 0;
};
// Parses the ids in the root of a configuration; they must be below `vocab`.
VisionTokenIds parse_vision_token_ids(const JsonObject& config, std::int64_t vocab);
// Throws Error(kBadModel) unless the tokenizer has these ids and the tokens of the chat template.
void check_prompt_tokens(const text::Tokenizer& tokenizer, const VisionTokenIds& ids);

// Class defaults of a tower, and its activation, the only one that is supported.
struct QwenTowerDefaults {
  std::string_view activation;
  std::int64_t num_layers = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t patch_px = 0;
};
// Parses the keys of a vision_config that the towers share, without the limits of frame sizes.
VisionSpec parse_qwen_tower(const JsonObject& vision_config, const QwenTowerDefaults& defaults);
// Returns the layers that a list names, or `fallback` when it is absent. They must ascend and be
// below `num_layers`.
std::vector<std::int64_t> parse_tower_layers(const JsonObject& vision_config, std::string_view key,
                                             std::vector<std::int64_t> fallback,
                                             std::int64_t num_layers);
// Throws Error(kBadModel) unless out_hidden_size, 3584 when it is absent, is the decoder's width.
void check_out_hidden_size(const JsonObject& vision_config, std::int64_t hidden);

// Returns the vision tokens of one image of the preprocessed size `size`.
VisionGrid vision_grid(const VisionSpec& tower, const vision::ImageSize& size);

}  // namespace caption::model
