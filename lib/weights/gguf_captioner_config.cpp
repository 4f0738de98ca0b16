// The configuration of a captioner in two files: a language model, and a tower with its projector.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "weights/gguf_config.h"
#include "weights/internal/gguf_keys.h"
#include "weights/internal/gguf_names.h"
#include "weights/internal/own_keys.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {
namespace {

// The id of a token of the text model's vocabulary.
std::optional<std::int64_t> find_token(const GgufFile& text, std::string_view token) {
  const auto tokens = text.metadata().get_strings("tokenizer.ggml.tokens");
  const auto found = std::find(tokens.begin(), tokens.end(), token);
  if (found == tokens.end()) return std::nullopt;
  return found - tokens.begin();
}

void add_token(const GgufFile& text, std::string_view token, std::string_view key,
               GgufJson& config) {
  if (const auto id = find_token(text, token)) config.add(key, *id);
}

void check_text(const GgufFile& text, const GgufFile& tower, std::string_view architecture,
                std::string_view projector, std::int64_t out) {
  const std::string found = text.metadata().require_string("general.architecture");
  const std::int64_t hidden =
      text.metadata().require_int(found + ".embedding_length", 1, kMaxExtent);
  if ((!architecture.empty() && found != architecture) || hidden != out) {
    fail_bad(tower,
             "is the tower of another model: its projector, " + std::string(projector) +
                 ", gives " + std::to_string(out) + " numbers per token, and " +
                 text.path().string() + " is of the architecture " + found + " and has " +
                 std::to_string(hidden),
             "put the mmproj file of this language model beside it");
  }
}

// The members that the towers of Qwen2.5-VL and Qwen3-VL share.
GgufJson qwen_vision(const GgufKeys& clip, std::int64_t out) {
  GgufJson vision;
  vision.add("depth", clip.require_layers())
      .add("hidden_size", clip.require_extent("embedding_length"))
      .add("intermediate_size", clip.require_extent("feed_forward_length"))
      .add("num_heads", clip.require_extent("attention.head_count"))
      .add("patch_size", clip.require_extent("patch_size"))
      .add("spatial_merge_size", clip.get_extent("spatial_merge_size", 2))
      .add("temporal_patch_size", std::int64_t{2})
      .add("out_hidden_size", out);
  return vision;
}

std::string qwen_config(const GgufFile& text, std::string_view model_type, const GgufJson& vision) {
  GgufJson config;
  config.add_text("model_type", model_type)
      .add_json("text_config", gguf_text_config(text))
      .add_json("vision_config", vision.text())
      .add_bool("tie_word_embeddings", text.find("output.weight") == nullptr);
  add_token(text, "<|video_pad|>", "video_token_id", config);
  add_token(text, "<|image_pad|>", "image_token_id", config);
  add_token(text, "<|vision_start|>", "vision_start_token_id", config);
  add_token(text, "<|vision_end|>", "vision_end_token_id", config);
  return config.text();
}

std::string qwen2_5_vl_config(const GgufFile& text, const GgufFile& tower) {
  const GgufKeys clip(tower, "clip.vision.");
  const std::int64_t out = require_tensor(tower, "mm.2.weight").extents[0];
  check_text(text, tower, "qwen2vl", "qwen2.5vl_merger", out);
  const std::int64_t depth = clip.require_layers();
  const std::int64_t pattern = clip.require_extent("n_wa_pattern");
  std::vector<std::int64_t> full_layers;
  for (std::int64_t i = pattern - 1; i < depth; i += pattern) full_layers.push_back(i);
  GgufJson vision = qwen_vision(clip, out);
  vision.add_text("hidden_act", "silu")
      .add("tokens_per_second",  // 2 in all published models
           tower.metadata().get_int(kGgufTokensPerSecondKey, 2, 0, 1000))
      .add("window_size", clip.get_extent("window_size", 112))
      .add_list("fullatt_block_indexes", full_layers);
  return qwen_config(text, "qwen2_5_vl", vision);
}

std::string qwen3_vl_config(const GgufFile& text, const GgufFile& tower) {
  const GgufKeys clip(tower, "clip.vision.");
  const std::int64_t out = require_tensor(tower, "mm.2.weight").extents[0];
  check_text(text, tower, "qwen3vl", "qwen3vl_merger", out);
  const std::vector<bool> is_deepstack = tower.metadata().get_bools(clip("is_deepstack_layers"));
  std::vector<std::int64_t> layers;
  for (std::size_t i = 0; i < is_deepstack.size(); ++i) {
    if (is_deepstack[i]) layers.push_back(static_cast<std::int64_t>(i));
  }
  const std::int64_t expected =
      text.metadata().get_int("qwen3vl.n_deepstack_layers", std::ssize(layers), 0, kMaxExtent);
  if (expected != std::ssize(layers)) {
    fail_bad(tower,
             "has " + std::to_string(layers.size()) + " deepstack layers, but " +
                 text.path().string() + " expects " + std::to_string(expected),
             "put the mmproj file of this language model beside it");
  }
  GgufJson vision = qwen_vision(clip, out);
  vision.add_text("hidden_act", "gelu_pytorch_tanh")
      .add("num_position_embeddings", require_tensor(tower, "v.position_embd.weight").extents[0])
      .add_list("deepstack_visual_indexes", layers);
  return qwen_config(text, "qwen3_vl", vision);
}

std::string internvl_config(const GgufFile& text, const GgufFile& tower) {
  const GgufKeys clip(tower, "clip.vision.");
  const std::int64_t out = require_tensor(tower, "mm.model.mlp.3.weight").extents[0];
  check_text(text, tower, "", "internvl", out);
  if (!tower.metadata().get_bool("clip.use_gelu", false)) {
    fail_unavailable(
        tower,
        "clip.use_gelu is false: towers of this projector run with GELU alone; run another model");
  }
  const bool has_norm_bias = tower.find("v.blk.0.ln1.bias") != nullptr;
  GgufJson vision;
  vision.add_text("model_type", "internvl_vision")
      .add("hidden_size", clip.require_extent("embedding_length"))
      .add("intermediate_size", clip.require_extent("feed_forward_length"))
      .add("num_hidden_layers", clip.require_layers())
      .add("num_attention_heads", clip.require_extent("attention.head_count"))
      .add("image_size", clip.require_extent("image_size"))
      .add("patch_size", clip.require_extent("patch_size"))
      .add("layer_norm_eps", tower.metadata().require_double(clip("attention.layer_norm_epsilon")))
      .add_text("norm_type", has_norm_bias ? "layer_norm" : "rms_norm")
      .add_bool("attention_bias", tower.find("v.blk.0.attn_q.bias") != nullptr)
      .add_bool("use_qk_norm", tower.find("v.blk.0.attn_q_norm.weight") != nullptr)
      .add_text("hidden_act", "gelu");
  const std::int64_t scale = clip.require_extent("projector.scale_factor");
  GgufJson config;
  config.add_text("model_type", "internvl")
      .add_json("text_config", gguf_text_config(text))
      .add_json("vision_config", vision.text())
      .add("downsample_ratio", 1.0 / static_cast<double>(scale))
      .add_bool("tie_word_embeddings", text.find("output.weight") == nullptr);
  add_token(text, "<IMG_CONTEXT>", "image_token_id", config);
  return config.text();
}

// A CLIP tower. The converters leave out the layers after the one whose output the projector gets.
GgufJson clip_vision(const GgufFile& tower) {
  const GgufKeys clip(tower, "clip.vision.");
  const GgufMetadata& metadata = tower.metadata();
  const bool is_gelu = metadata.get_bool("clip.use_gelu", false);
  const bool is_silu = metadata.get_bool("clip.use_silu", false);
  if (tower.find("v.class_embd") == nullptr) {
    fail_unavailable(tower,
                     "tensor \"v.class_embd\" is missing: of the towers with a projector of linear "
                     "layers, this build runs CLIP's");
  }
  GgufJson vision;
  vision.add_text("model_type", "clip_vision_model")
      .add("hidden_size", clip.require_extent("embedding_length"))
      .add("intermediate_size", clip.require_extent("feed_forward_length"))
      .add("num_hidden_layers", clip.require_layers())
      .add("num_attention_heads", clip.require_extent("attention.head_count"))
      .add("image_size", clip.require_extent("image_size"))
      .add("patch_size", clip.require_extent("patch_size"))
      .add("layer_norm_eps", metadata.require_double(clip("attention.layer_norm_epsilon")))
      .add_text("hidden_act", is_silu   ? "silu"
                              : is_gelu ? "gelu"
                                        : "quick_gelu");
  return vision;
}

// Llama and Mistral have one architecture in GGUF; their templates differ.
bool is_mistral(const GgufFile& text) {
  const std::string chat_template = text.metadata().get_string("tokenizer.chat_template", "");
  return text.metadata().get_string("general.architecture", "") == "llama" &&
         chat_template.find("[INST]") != std::string::npos &&
         chat_template.find("<<SYS>>") == std::string::npos;
}

// LLaVA-NeXT-Video. Its files differ from those of LLaVA for images by the token of videos.
std::string llava_config(const GgufFile& text, const GgufFile& tower) {
  if (!text.metadata().has("tokenizer.ggml.tokens")) {
    fail_bad(text, "tokenizer.ggml.tokens is missing");
  }
  const auto video_id = find_token(text, "<video>");
  if (!video_id) {
    fail_unavailable(
        text,
        "has no token <video>, so that this is a LLaVA for images; it runs as a composed "
        "model, with the mmproj file as model.vision and model.projector of a preset, this "
        "file as model.llm, and model.prompt");
  }
  const std::int64_t out = require_tensor(tower, "mm.2.weight").extents[0];
  check_text(text, tower, "", "mlp", out);
  std::vector<std::int64_t> layers = tower.metadata().get_ints("clip.vision.feature_layer");
  if (layers.empty()) layers.push_back(-1);
  GgufJson config;
  config.add_text("model_type", "llava_next_video")
      .add_json("text_config", gguf_text_config(text, is_mistral(text) ? "mistral" : ""))
      .add_json("vision_config", clip_vision(tower).text())
      .add_list("vision_feature_layer", layers)
      .add_text("vision_feature_select_strategy", "default")
      .add_text("projector_hidden_act", "gelu")
      .add_bool("multimodal_projector_bias", tower.find("mm.0.bias") != nullptr)
      .add_text("spatial_pool_mode", "average")
      .add("spatial_pool_stride", std::int64_t{2})
      .add("video_token_index", *video_id)
      .add_bool("tie_word_embeddings", text.find("output.weight") == nullptr);
  if (text.metadata().get_bool(kGgufDemonstrationKey, false)) {
    config.add_bool("caption_cli_demonstration", true)
        .add_text("caption_cli_unlike", text.metadata().get_string(kGgufUnlikeKey, ""));
  }
  return config.text();
}

void require_tower(const GgufFile& tower) {
  const std::string architecture = tower.metadata().require_string("general.architecture");
  if (architecture == "clip") return;
  fail_bad(tower,
           "general.architecture is " + quote_name(architecture) +
               "; expected clip, a vision tower with its projector",
           "give an mmproj file");
}

// Adds image_mean and image_std as far as the file has them.
void add_normalisation(const GgufFile& tower, GgufJson& config) {
  for (const std::string_view key : {"image_mean", "image_std"}) {
    const std::vector<double> values =
        tower.metadata().get_doubles("clip.vision." + std::string(key));
    std::string list;
    for (const double value : values) list += (list.empty() ? "" : ",") + json_number(value);
    if (!values.empty()) config.add_json(key, "[" + list + "]");
  }
}

std::string edges(std::string_view first, std::int64_t first_px, std::string_view second,
                  std::int64_t second_px) {
  return GgufJson().add(first, first_px).add(second, second_px).text();
}

// The limits are those of the published models, as far as the file does not say others for frames:
// those that a file of Qwen3-VL may say are of images, not of clips.
void add_qwen_limits(const GgufKeys& clip, bool is_qwen3, GgufJson& config) {
  const std::int64_t patch_px = clip.require_extent("patch_size");
  config.add("patch_size", patch_px)
      .add("merge_size", clip.get_extent("spatial_merge_size", 2))
      .add("temporal_patch_size", std::int64_t{2});
  if (is_qwen3) {
    config.add_json("size", edges("longest_edge", 25165824, "shortest_edge", 4096));
  } else {
    config.add("min_pixels", clip.get_extent("image_min_pixels", 3136))
        .add("max_pixels", clip.get_extent("image_max_pixels", 12845056));
  }
}

}  // namespace

std::string gguf_captioner_config(const GgufFile& text, const GgufFile& tower) {
  require_tower(tower);
  const std::string projector = gguf_projector_type(tower);
  if (projector == "qwen2.5vl_merger") return qwen2_5_vl_config(text, tower);
  if (projector == "qwen3vl_merger") return qwen3_vl_config(text, tower);
  if (projector == "internvl") return internvl_config(text, tower);
  if (projector == "mlp") return llava_config(text, tower);
  fail_unavailable(tower, "clip.projector_type " + quote_name(projector) +
                              " is not supported by this build; qwen2.5vl_merger, "
                              "qwen3vl_merger, internvl and mlp are");
}

std::string gguf_tower_config(const GgufFile& tower) {
  require_tower(tower);
  const std::string projector = gguf_projector_type(tower);
  if (projector == "mlp") return clip_vision(tower).text();
  fail_unavailable(tower, "clip.projector_type " + quote_name(projector) +
                              ": this tower runs with the language model of its own family; give "
                              "the folder that holds both");
}

std::string gguf_preprocessor_config(const GgufFile& tower) {
  require_tower(tower);
  const GgufKeys clip(tower, "clip.vision.");
  const std::string projector = gguf_projector_type(tower);
  const std::int64_t image_px = clip.get_extent("image_size", 1);
  GgufJson config;
  config.add("resample", std::int64_t{3});
  add_normalisation(tower, config);
  if (projector == "qwen2.5vl_merger" || projector == "qwen3vl_merger") {
    add_qwen_limits(clip, projector == "qwen3vl_merger", config);
  } else {
    const std::string square = edges("height", image_px, "width", image_px);
    const bool is_cropped = projector == "mlp";
    const std::string shortest = GgufJson().add("shortest_edge", image_px).text();
    config.add_json("size", is_cropped ? shortest : square).add_bool("do_center_crop", is_cropped);
    if (is_cropped) config.add_json("crop_size", square);
  }
  return config.text();
}

std::string gguf_key_of_file(std::string_view name) {
  return std::string(kGgufFilesPrefix) + std::string(name);
}

std::optional<std::string> gguf_stored_file(const GgufFile& file, std::string_view name) {
  return file.metadata().find_string(gguf_key_of_file(name));
}

}  // namespace caption::weights
