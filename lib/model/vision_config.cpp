#include "model/internal/vision_config.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/join.h"
#include "base/mend_advice.h"
#include "model/internal/config.h"

namespace caption::model {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 20;
constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kMaxPx = 8192;

// Class defaults that differ between CLIP and SigLIP.
struct TowerDefaults {
  std::int64_t patch_px;
  std::string_view activation;
  double layer_norm_eps;
};

VisionSpec parse_tower(const JsonObject& config, const TowerDefaults& defaults) {
  VisionSpec tower;
  tower.hidden = config.get_int("hidden_size", 768, 1, kMaxExtent);
  tower.intermediate = config.get_int("intermediate_size", 3072, 1, kMaxExtent);
  tower.num_layers = config.get_int("num_hidden_layers", 12, 1, kMaxLayers);
  tower.num_heads = config.get_int("num_attention_heads", 12, 1, kMaxExtent);
  tower.image_px = config.get_int("image_size", 224, 1, kMaxPx);
  tower.patch_px = config.get_int("patch_size", defaults.patch_px, 1, kMaxPx);
  tower.activation = parse_activation(config, "hidden_act", defaults.activation);
  const double eps = config.get_double("layer_norm_eps", defaults.layer_norm_eps);
  if (!(eps > 0) || eps > 1)
    throw_bad(config, "layer_norm_eps must be in (0, 1], found " + json_number(eps));
  tower.layer_norm_eps = static_cast<float>(eps);
  return tower;
}

}  // namespace

Activation parse_activation(const JsonObject& config, std::string_view key,
                            std::string_view fallback) {
  const std::string name = config.get_string(key, fallback);
  if (name == "gelu" || name == "gelu_python") return Activation::kGelu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return Activation::kGeluTanh;
  if (name == "quick_gelu") return Activation::kQuickGelu;
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "relu") return Activation::kRelu;
  throw_unavailable(
      config,
      std::string(key) + " \"" + name +
          "\" is not supported by this build; gelu, gelu_pytorch_tanh, quick_gelu, silu and "
          "relu are");
}

void finish_tower(const JsonObject& config, VisionSpec& tower) {
  if (config.get_int("num_channels", 3, 1, 1024) != 3) {
    throw_unavailable(
        config, "num_channels: only RGB towers are supported by this build; run another model");
  }
  if (tower.hidden % tower.num_heads != 0) {
    throw_bad(config, "hidden_size " + std::to_string(tower.hidden) + " is no multiple of " +
                          std::to_string(tower.num_heads) + " attention heads");
  }
  if (tower.patch_px > tower.image_px) {
    throw_bad(config, "patch_size " + std::to_string(tower.patch_px) + " exceeds image_size " +
                          std::to_string(tower.image_px));
  }
  tower.num_positions = tower.grid() * tower.grid() + tower.class_tokens;
}

VisionSpec parse_clip_vision_config(const JsonObject& config) {
  VisionSpec clip =
      parse_tower(config, {.patch_px = 32, .activation = "quick_gelu", .layer_norm_eps = 1e-5});
  finish_tower(config, clip);
  return clip;
}

VisionSpec parse_siglip_vision_config(const JsonObject& config) {
  VisionSpec siglip = parse_tower(
      config, {.patch_px = 16, .activation = "gelu_pytorch_tanh", .layer_norm_eps = 1e-6});
  siglip.vit = {.patch_bias = true, .pre_norm = false};
  siglip.class_tokens = 0;
  finish_tower(config, siglip);
  return siglip;
}

VisionSpec parse_vision_config(const JsonObject& config, std::string_view default_type) {
  const std::string model_type = config.get_string("model_type", default_type);
  if (model_type == "clip_vision_model") return parse_clip_vision_config(config);
  if (model_type == "siglip_vision_model") return parse_siglip_vision_config(config);
  throw_unavailable(config, "model_type \"" + model_type +
                                "\": the vision towers of this build are clip_vision_model and "
                                "siglip_vision_model (also SigLIP 2 of a fixed size)");
}

namespace {

constexpr std::array<std::string_view, 4> kTowerTypes = {"clip", "clip_vision_model", "siglip",
                                                         "siglip_vision_model"};

}  // namespace

bool is_tower_type(std::string_view model_type) {
  return std::find(kTowerTypes.begin(), kTowerTypes.end(), model_type) != kTowerTypes.end();
}

std::string tower_type_names() { return join(kTowerTypes); }

VisionSpec parse_tower_config(const JsonObject& config) {
  const std::string model_type = config.get_string("model_type", "");
  if (model_type != "clip" && model_type != "siglip") {
    return parse_vision_config(config, "clip_vision_model");
  }
  const std::string default_type = model_type + "_vision_model";
  if (const auto vision = config.get_object("vision_config")) {
    return parse_vision_config(*vision, default_type);
  }
  return parse_vision_config(JsonObject::parse("{}", config.name(), ErrorCode::kBadModel),
                             default_type);
}

namespace {

std::int64_t layers_to_run(const VisionSpec& tower, std::int64_t vision_feature_layer,
                           const std::string& where) {
  const std::int64_t layers =
      vision_feature_layer < 0 ? tower.num_layers + 1 + vision_feature_layer : vision_feature_layer;
  if (layers < 0 || layers > tower.num_layers) {
    fail_bad_file(where + ": vision_feature_layer " + std::to_string(vision_feature_layer) +
                  " does not exist: the vision tower has " + counted(tower.num_layers, "layer"));
  }
  return layers;
}

}  // namespace

void set_feature_layers(VisionSpec& tower, const std::vector<std::int64_t>& layers,
                        const std::string& where) {
  constexpr std::size_t kMaxLayers = 64;
  if (layers.empty() || layers.size() > kMaxLayers) {
    fail_bad_file(where + ": vision_feature_layer names " + counted(std::ssize(layers), "layer") +
                  "; a projector gets 1 to 64 of them");
  }
  std::vector<std::int64_t> states;
  for (const std::int64_t layer : layers) states.push_back(layers_to_run(tower, layer, where));
  const std::int64_t all = tower.num_layers;
  tower.num_layers = *std::max_element(states.begin(), states.end());
  tower.unused_layers = all - tower.num_layers;
  tower.feature_layers = states.size() > 1 ? std::move(states) : std::vector<std::int64_t>();
}

std::vector<std::int64_t> parse_feature_layers(const JsonObject& config, std::int64_t fallback) {
  std::vector<std::int64_t> layers = config.get_ints("vision_feature_layer");
  return layers.empty() ? std::vector<std::int64_t>{fallback} : layers;
}

void check_feature_strategy(const JsonObject& config, const VisionSpec& tower,
                            std::string_view fallback) {
  const std::string strategy = config.get_string("vision_feature_select_strategy", fallback);
  const bool has_class_token = tower.class_tokens > 0;
  if (strategy == (has_class_token ? "default" : "full")) return;
  if (has_class_token) {
    // "full" keeps the class token, which has no place in the grid of patches.
    throw_unavailable(
        config, "vision_feature_select_strategy \"" + strategy + "\" is not supported; default is");
  }
  throw_bad(config, "vision_feature_select_strategy \"" + strategy +
                        "\": the vision tower has no class token to leave out; it must be full");
}

}  // namespace caption::model
