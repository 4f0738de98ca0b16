#include "model/random_tower.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "model/internal/clip_vision_tower.h"
#include "model/internal/random_file.h"
#include "weights/checkpoint.h"

namespace caption::model {
namespace {

std::vector<NewTensor> list_tensors(const VisionShape& shape) {
  std::vector<NewTensor> tensors;
  const auto norm = [&](const std::string& stem) {
    tensors.push_back({stem + ".weight", {shape.hidden}, Fill::kOne});
    tensors.push_back({stem + ".bias", {shape.hidden}, Fill::kZero});
  };
  const auto linear = [&](const std::string& stem, std::int64_t out, std::int64_t in) {
    tensors.push_back({stem + ".weight", {out, in}});
    tensors.push_back({stem + ".bias", {out}, Fill::kZero});
  };
  const std::int64_t grid = shape.image_px / shape.patch_px;
  tensors.push_back({"embeddings.class_embedding", {shape.hidden}});
  tensors.push_back(
      {"embeddings.patch_embedding.weight", {shape.hidden, 3, shape.patch_px, shape.patch_px}});
  tensors.push_back({"embeddings.position_embedding.weight", {grid * grid + 1, shape.hidden}});
  norm("pre_layrnorm");  // misspelled in every checkpoint
  for (std::int64_t i = 0; i < shape.num_layers; ++i) {
    const std::string layer = "encoder.layers." + std::to_string(i) + ".";
    norm(layer + "layer_norm1");
    for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
      linear(layer + "self_attn." + name, shape.hidden, shape.hidden);
    }
    norm(layer + "layer_norm2");
    linear(layer + "mlp.fc1", shape.intermediate, shape.hidden);
    linear(layer + "mlp.fc2", shape.hidden, shape.intermediate);
  }
  return tensors;
}

RandomFile make_file(const VisionShape& shape, WeightType type, std::uint64_t seed) {
  if (shape.image_px <= 0 || shape.frames_per_image != 1 || shape.class_tokens != 1) {
    throw Error(ErrorCode::kUnavailable,
                "random tower: only CLIP's kind is known, of single frames of a fixed size with a "
                "class token; use clip-l-336");
  }
  return RandomFile(list_tensors(shape), type == WeightType::kF32 ? DType::kF32 : DType::kBF16,
                    seed);
}

ClipVisionConfig to_config(const VisionShape& shape) {
  ClipVisionConfig config;
  config.hidden = shape.hidden;
  config.intermediate = shape.intermediate;
  config.num_layers = shape.num_layers;
  config.num_heads = shape.num_heads;
  config.image_px = shape.image_px;
  config.patch_px = shape.patch_px;
  config.layer_norm_eps = 1e-5F;
  return config;
}

}  // namespace

struct RandomTower::State {
  State(const RandomFile& file, const VisionShape& shape, WeightType type)
      : store(weights::Checkpoint::open(file.path()), type),
        tower(store, "", to_config(shape), shape.num_layers) {
    file.forget_packed(store);
  }

  WeightStore store;
  ClipVisionTower tower;
};

RandomTower::RandomTower(const VisionShape& shape, WeightType type, std::uint64_t seed)
    : state_(std::make_unique<State>(make_file(shape, type, seed), shape, type)) {}

RandomTower::~RandomTower() = default;

std::int64_t RandomTower::weight_bytes() const { return state_->store.used_bytes(); }

ConstView RandomTower::encode(Stream& stream, ConstView pixels) {
  return state_->tower.forward(stream, pixels);
}

}  // namespace caption::model
