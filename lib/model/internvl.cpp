// InternVL3 and InternVL3.5: InternViT, pixel shuffle, a projector of a norm and two layers, and
// Qwen2 or Qwen3. Two forms of the same models: "internvl" as transformers has it, and
// "internvl_chat", the repositories that carry their own code, which run here as the reference runs
// the first form. The tower is vit_tower.cpp. Sources: transformers 4.57 modeling_internvl.py,
// processing_internvl.py; OpenGVLab/InternVL configuration_internvl_chat.py,
// configuration_intern_vit.py.
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/mend_advice.h"
#include "model/internal/chat_format.h"
#include "model/internal/chat_template.h"
#include "model/internal/config.h"
#include "model/internal/hub_model.h"
#include "model/internal/parts.h"
#include "model/internal/preprocessor_config.h"
#include "model/internal/vision_config.h"
#include "model/vit_blueprint.h"

namespace caption::model {
namespace {

constexpr std::string_view kFamilyName = "InternVL";
constexpr std::string_view kContextToken = "<IMG_CONTEXT>";
constexpr std::string_view kVideoToken = "<video>";  // in the chat template only

const ChatFormat& chat_format() {
  static const ChatFormat kFormat = chatml_format("\n");
  return kFormat;
}

class InternVl final : public PartsCaptionModel {
 public:
  explicit InternVl(Parts parts)
      : PartsCaptionModel(std::move(parts)),
        context_id_(require_token(tokenizer(), kContextToken)) {
    for (const char* token : {"<img>", "</img>", "<|im_start|>", "<|im_end|>"}) {
      require_token(tokenizer(), token);
    }
  }

  PromptIds build_prompt(const Conversation& conversation, const ClipShape& clip) const override {
    const auto describe = [this](const ClipShape& shape) {
      ClipShape one = shape;
      one.num_frames = 1;
      VideoText video{
          .markup = "", .num_placeholders = shape.num_frames, .tokens_each = vision_tokens(one)};
      for (std::int64_t frame = 1; frame <= shape.num_frames; ++frame) {
        video.markup += (frame > 1 ? "\nFrame" : "Frame") + std::to_string(frame) + ": <img>" +
                        std::string(kContextToken) + "</img>";
      }
      return video;
    };
    return build_chat_prompt(tokenizer(), chat_format(), context_id_, conversation, clip, describe);
  }

  std::string_view family() const override { return "internvl"; }

 private:
  std::int32_t context_id_;
};

// image_size and patch_size are a number, or a list of two equal ones.
std::int64_t get_edge(const JsonObject& config, std::string_view key, std::int64_t fallback) {
  const std::vector<std::int64_t> edges = config.get_ints(key);
  if (edges.empty()) return fallback;
  for (const std::int64_t edge : edges) {
    if (edge < 1 || edge > 8192 || edges.size() > 2) {
      fail_bad_file(config.name() + ": " + std::string(key) +
                    " must be an edge of 1 to 8192 pixels, or height and width, found " +
                    std::to_string(edge));
    }
    if (edge != edges.front()) {
      throw_unavailable(
          config, std::string(key) + ": only squares are supported by this build; " + kRunAnother);
    }
  }
  return edges.front();
}

Norm parse_norm(const JsonObject& config, std::string_view fallback) {
  const std::string name = config.get_string("norm_type", fallback);
  if (name == "layer_norm") return Norm::kLayer;
  if (name == "rms_norm") return Norm::kRms;
  throw_unavailable(config, "norm_type \"" + name +
                                "\" is not supported by this build; layer_norm and rms_norm are");
}

// Keys and class defaults in which the two forms of a tower's configuration differ.
struct TowerKeys {
  const char* attention_bias;
  const char* qk_norm;
  bool has_qk_norm;
  const char* norm;
  std::int64_t hidden, intermediate, num_layers, num_heads, image_px;
};
constexpr TowerKeys kHubTower = {.attention_bias = "attention_bias",
                                 .qk_norm = "use_qk_norm",
                                 .has_qk_norm = false,
                                 .norm = "layer_norm",
                                 .hidden = 1024,
                                 .intermediate = 4096,
                                 .num_layers = 24,
                                 .num_heads = 16,
                                 .image_px = 448};
constexpr TowerKeys kChatTower = {.attention_bias = "qkv_bias",
                                  .qk_norm = "qk_normalization",
                                  .has_qk_norm = true,
                                  .norm = "rms_norm",
                                  .hidden = 3200,
                                  .intermediate = 12800,
                                  .num_layers = 48,
                                  .num_heads = 25,
                                  .image_px = 224};

VisionSpec parse_intern_vit(const JsonObject& config, const TowerKeys& keys) {
  const bool has_positions = config.get_bool("use_absolute_position_embeddings", true);
  if (!has_positions || !config.get_bool("use_mean_pooling", true)) {
    throw_unavailable(
        config,
        "a tower without position embeddings, or with a norm after its last layer "
        "(use_mean_pooling false), is not supported by this build; run another model");
  }
  constexpr std::int64_t kMaxExtent = std::int64_t{1} << 20;
  VisionSpec vision;
  vision.hidden = config.get_int("hidden_size", keys.hidden, 1, kMaxExtent);
  vision.intermediate = config.get_int("intermediate_size", keys.intermediate, 1, kMaxExtent);
  vision.num_layers = config.get_int("num_hidden_layers", keys.num_layers, 1, 1024);
  vision.num_heads = config.get_int("num_attention_heads", keys.num_heads, 1, kMaxExtent);
  vision.image_px = get_edge(config, "image_size", keys.image_px);
  vision.patch_px = get_edge(config, "patch_size", 14);
  vision.activation = parse_activation(config, "hidden_act", "gelu");
  const double eps = config.get_double("layer_norm_eps", 1e-6);
  if (!(eps > 0) || eps > 1) {
    fail_bad_file(config.name() + ": layer_norm_eps must be in (0, 1], found " + json_number(eps));
  }
  vision.layer_norm_eps = static_cast<float>(eps);
  vision.vit = {.patch_bias = true,
                .pre_norm = false,
                .norm = parse_norm(config, keys.norm),
                .attention_bias = config.get_bool(keys.attention_bias, false),
                .qk_norm = config.get_bool(keys.qk_norm, keys.has_qk_norm),
                .layer_scale = true};
  finish_tower(config, vision);
  return vision;
}

// Sets pixel shuffle and projector.
void add_projection(const JsonObject& config, std::int64_t text_hidden, VisionSpec& vision) {
  const double ratio = config.get_double("downsample_ratio", 0.5);
  const double stride = 1.0 / ratio;
  if (!(ratio > 0) || !(stride >= 1) || stride > 64 || stride != std::floor(stride)) {
    fail_bad_file(config.name() + ": downsample_ratio must be 1 / n for a whole number n, found " +
                  json_number(ratio));
  }
  vision.merge = PatchMerge::kShuffle;
  vision.pool_stride = static_cast<std::int64_t>(stride);
  if (vision.grid() % vision.pool_stride != 0) {
    fail_bad_file(config.name() + ": downsample_ratio: pixel shuffle by " +
                  std::to_string(vision.pool_stride) + " does not divide the tower's grid of " +
                  std::to_string(vision.grid()) + "x" + std::to_string(vision.grid()));
  }
  vision.projector_norm = true;
  vision.projector = {{.out = text_hidden, .in = vision.merged_columns()},
                      {.out = text_hidden, .in = text_hidden}};
  vision.projector_activation = parse_activation(config, "projector_hidden_act", "gelu");
}

// The parts of a configuration, in one of its two forms.
struct Description {
  VisionSpec vision;
  TextConfig text;
  // Whether captions end at <|im_end|>, whatever the files name: so it is in the code of the
  // internvl_chat repositories, whose configurations name <|endoftext|>.
  bool ends_at_turn = false;
};

Description parse_hub(const JsonObject& config) {
  Description found;
  found.text = parse_text_config(require_part(config, "text_config", kFamilyName), "qwen2");
  found.vision = parse_intern_vit(require_part(config, "vision_config", kFamilyName), kHubTower);
  check_feature_strategy(config, found.vision, "default");
  if (parse_feature_layers(config, -1) != std::vector<std::int64_t>{-1}) {
    throw_unavailable(config,
                      "vision_feature_layer: only -1, the last layer, is supported; the reference "
                      "fails with any other");
  }
  add_projection(config, found.text.spec.hidden, found.vision);
  return found;
}

Description parse_chat(const JsonObject& config) {
  Description found;
  const JsonObject vision = require_part(config, "vision_config", kFamilyName);
  found.text = parse_text_config(require_part(config, "llm_config", kFamilyName), "qwen2");
  found.vision = parse_intern_vit(vision, kChatTower);
  if (config.get_string("ps_version", "v1") != "v2") {
    throw_unavailable(config,
                      "ps_version: only v2, the pixel shuffle of InternVL 1.5 and later, "
                      "is supported by this build");
  }
  const std::int64_t select_layer = config.get_int("select_layer", -1, -1024, 1024);
  set_feature_layers(found.vision, {select_layer}, config.name());
  const std::int64_t image_px = config.get_int("force_image_size", found.vision.image_px, 1, 8192);
  if (image_px != found.vision.image_px) {
    throw_unavailable(config,
                      "force_image_size differs from the tower's image_size; interpolated "
                      "positions are not supported by this build; run another model");
  }
  if (found.vision.unused_layers > 0) {
    throw_unavailable(config, "select_layer: only -1, the last layer, is supported");
  }
  add_projection(config, found.text.spec.hidden, found.vision);
  found.ends_at_turn = true;
  return found;
}

Blueprint make_blueprint(const Description& found) {
  Blueprint blueprint;
  add_intern_vit(blueprint, found.vision,
                 {"model.vision_tower.", "vision_tower.", "vision_model."});
  std::vector<std::string> projector_prefixes = hub_projector_prefixes();
  projector_prefixes.emplace_back("mlp1.");
  add_intern_projector(blueprint, found.vision, std::move(projector_prefixes));
  add_decoder(blueprint, found.text.spec, hub_text_prefixes(), hub_head_prefixes());
  return blueprint;
}

// Puts <|im_end|>, with which the template ends a turn, before all other tokens that end a caption.
void end_at_turn(const text::Tokenizer& tokenizer, std::vector<std::int32_t>& eos_ids) {
  const std::optional<text::TokenId> id = tokenizer.find_token("<|im_end|>");
  if (!id) return;
  std::erase(eos_ids, *id);
  eos_ids.insert(eos_ids.begin(), *id);
}

// The configurations of the processors of images and of videos, as far as the folder has them.
struct Processors {
  std::optional<JsonObject> image;
  std::optional<JsonObject> video;
};

// transformers 5 saves both inside processor_config.json.
Processors find_processors(const ModelFolder& folder) {
  Processors found{.image = folder.find_json("preprocessor_config.json"),
                   .video = folder.find_json("video_preprocessor_config.json")};
  if (found.image) return found;
  if (const auto both = folder.find_json("processor_config.json")) {
    found.image = both->get_object("image_processor");
    if (!found.video) found.video = both->get_object("video_processor");
  }
  return found;
}

// Repositories of InternVL3.5 hold a video_preprocessor_config.json with class defaults that do not
// fit the tower (OpenGVLab/InternVL issue 1131), so that the processor of images decides.
vision::PreprocessSpec read_preprocessing(const ModelFolder& folder, const VisionSpec& vision) {
  const PreprocessDefaults defaults = internvl_preprocessing();
  const auto [image, video] = find_processors(folder);
  if (!image) return read_preprocess_spec(folder, defaults);
  vision::PreprocessSpec spec = parse_preprocess_spec(*image, defaults);
  const auto edge = static_cast<int>(vision.image_px);
  // A crop to the size of the tower changes nothing.
  if (spec.size_px == std::array{edge, edge} && spec.crop_px == *spec.size_px) {
    spec.do_center_crop = false;
  }
  if (video && !(spec == read_preprocess_spec(folder, defaults))) {
    log_warning("model", video->name() + " is ignored, since it differs from " + image->name() +
                             "; published InternVL3.5 folders hold a wrong one");
  }
  return spec;
}

std::unique_ptr<CaptionModel> open_parts(const ModelFolder& folder, const JsonObject& config,
                                         weights::WeightFormat format, Parts parts,
                                         Description found) {
  std::vector<std::unique_ptr<weights::Source>> sources;
  sources.push_back(folder.open_weights());
  tie_missing_head(config, *sources.front(), found.text);
  parts.preprocess = read_preprocessing(folder, found.vision);
  place_hub_parts(folder, found.text, {make_blueprint(found), std::move(sources), format}, parts);
  if (found.ends_at_turn) end_at_turn(*parts.tokenizer, parts.eos_ids);
  // InternVL3's <video> has the first id that has no row; no prompt contains it.
  if (parts.tokenizer->find_token("<video>") == found.text.spec.vocab) parts.num_unembedded_ids = 1;
  return std::make_unique<InternVl>(std::move(parts));
}

std::unique_ptr<CaptionModel> open_hub(const ModelFolder& folder, const JsonObject& config,
                                       weights::WeightFormat format, Parts parts) {
  Description found = parse_hub(config);
  const auto context_id = static_cast<std::int32_t>(
      config.get_int("image_token_id", 151667, 0, found.text.spec.vocab - 1));
  auto model = open_parts(folder, config, format, std::move(parts), std::move(found));
  check_token(model->tokenizer(), kContextToken, context_id, "image_token_id");
  // The repositories of internvl_chat have one for text, which their code does not use.
  warn_of_other_template(read_chat_template(folder, kVideoToken), chat_format(), "<video>\n");
  return model;
}

std::unique_ptr<CaptionModel> open_chat(const ModelFolder& folder, const JsonObject& config,
                                        weights::WeightFormat format, Parts parts) {
  return open_parts(folder, config, format, std::move(parts), parse_chat(config));
}

}  // namespace

const Family kInternVl = {
    .model_type = "internvl",
    .describe = [](const JsonObject& config) { return make_blueprint(parse_hub(config)); },
    .open = open_hub};
const Family kInternVlChat = {
    .model_type = "internvl_chat",
    .describe = [](const JsonObject& config) { return make_blueprint(parse_chat(config)); },
    .open = open_chat};

}  // namespace caption::model
