// Sources of the names: transformers 4.57 modeling_clip.py, modeling_siglip.py,
// modeling_internvl.py; OpenGVLab/InternVL modeling_intern_vit.py for the other layout.
#include "model/vit_blueprint.h"

#include <utility>

#include "base/error.h"

namespace caption::model {
namespace {

// The names of the parts of a layer.
struct LayerNames {
  const char* norm_1;
  const char* q;
  const char* k;
  const char* v;
  const char* out;
  const char* norm_2;
};
constexpr LayerNames kClipLayer = {.norm_1 = "layer_norm1.",
                                   .q = "self_attn.q_proj.",
                                   .k = "self_attn.k_proj.",
                                   .v = "self_attn.v_proj.",
                                   .out = "self_attn.out_proj.",
                                   .norm_2 = "layer_norm2."};
constexpr LayerNames kInternLayer = {.norm_1 = "layernorm_before.",
                                     .q = "attention.q_proj.",
                                     .k = "attention.k_proj.",
                                     .v = "attention.v_proj.",
                                     .out = "attention.projection_layer.",
                                     .norm_2 = "layernorm_after."};

// Adds a norm; an RMS norm has no bias.
NormIds add_norm(Blueprint& blueprint, const VisionSpec& spec, const std::string& stem) {
  if (spec.vit.norm == Norm::kLayer) return blueprint.add_norm(stem, spec.hidden);
  return {.weight = blueprint.add_vector(stem + "weight", spec.hidden, Fill::kOne)};
}

VitLayerIds add_layer(Blueprint& blueprint, const VisionSpec& spec, const std::string& stem,
                      const LayerNames& names) {
  const std::int64_t hidden = spec.hidden;
  const auto linear = [&](const char* name, LinearSpec layer, ShardAxis shard) {
    return blueprint.add_linear(stem + name, layer, Role::kEncoderLinear, shard);
  };
  const LinearSpec qkv = {.out = hidden, .in = hidden, .has_bias = spec.vit.attention_bias};
  return {.norm_1 = add_norm(blueprint, spec, stem + names.norm_1),
          .q = linear(names.q, qkv, ShardAxis::kRows),
          .k = linear(names.k, qkv, ShardAxis::kRows),
          .v = linear(names.v, qkv, ShardAxis::kRows),
          .out = linear(names.out, {.out = hidden, .in = hidden}, ShardAxis::kColumns),
          .norm_2 = add_norm(blueprint, spec, stem + names.norm_2),
          .fc1 = linear("mlp.fc1.", {.out = spec.intermediate, .in = hidden}, ShardAxis::kRows),
          .fc2 = linear("mlp.fc2.", {.out = hidden, .in = spec.intermediate}, ShardAxis::kColumns)};
}

LinearIds add_patch_embedding(Blueprint& blueprint, const VisionSpec& spec,
                              const std::string& stem) {
  LinearIds ids;
  ids.weight = blueprint.add({.name = stem + "weight",
                              .shape = {spec.hidden, 3, spec.patch_px, spec.patch_px},
                              .role = Role::kPatchEmbedding});
  if (spec.vit.patch_bias) {
    ids.bias = blueprint.add_vector(stem + "bias", spec.hidden, Fill::kZero);
  }
  return ids;
}

// Adds what an InternViT's layer has besides add_layer(): norms of q and k, and layer scales.
void add_intern_extras(Blueprint& blueprint, const VisionSpec& spec, const std::string& stem,
                       VitLayerIds& ids) {
  const auto vector = [&](const char* name) {
    return blueprint.add_vector(stem + name, spec.hidden, Fill::kOne);
  };
  if (spec.vit.qk_norm) {
    ids.q_norm = vector("attention.q_norm.weight");
    ids.k_norm = vector("attention.k_norm.weight");
  }
  if (spec.vit.layer_scale) {
    ids.scale_1 = vector("lambda_1");
    ids.scale_2 = vector("lambda_2");
  }
}

// Names the parameters of a layer as the internvl_chat repositories do.
void set_chat_layout(Blueprint& blueprint, const VisionSpec& spec, const std::string& stem,
                     const VitLayerIds& ids) {
  const std::int64_t hidden = spec.hidden;
  const auto third = [&](const LinearIds& layer, std::int64_t index) {
    blueprint.set_other_layout(layer, {stem + "attn.qkv.", index * hidden, 3 * hidden});
  };
  third(ids.q, 0);
  third(ids.k, 1);
  third(ids.v, 2);
  blueprint.set_other_layout(ids.out, {.name = stem + "attn.proj."});
  blueprint.set_other_layout(ids.norm_1, {.name = stem + "norm1."});
  blueprint.set_other_layout(ids.norm_2, {.name = stem + "norm2."});
  blueprint.set_other_layout(ids.fc1, {.name = stem + "mlp.fc1."});
  blueprint.set_other_layout(ids.fc2, {.name = stem + "mlp.fc2."});
  if (spec.vit.qk_norm) {
    blueprint.set_other_layout(ids.q_norm, {.name = stem + "attn.q_norm.weight"});
    blueprint.set_other_layout(ids.k_norm, {.name = stem + "attn.k_norm.weight"});
  }
  if (spec.vit.layer_scale) {
    blueprint.set_other_layout(ids.scale_1, {.name = stem + "ls1"});
    blueprint.set_other_layout(ids.scale_2, {.name = stem + "ls2"});
  }
}

// What the towers compute after the hidden states: the layers above the requested one, the norm
// after the last layer, and SigLIP's pooling head (modeling_clip.py, modeling_siglip.py).
void ignore_after_features(Blueprint& blueprint, const VisionSpec& spec,
                           const std::vector<std::string>& prefixes, std::int32_t source) {
  const auto ignore = [&](const std::string& prefix) {
    blueprint.ignored.push_back({.source = source, .prefix = prefix});
  };
  for (const std::string& prefix : prefixes) {
    ignore(prefix + "post_layernorm.");
    ignore(prefix + "head.");
    for (std::int64_t i = 0; i < spec.unused_layers; ++i) {
      ignore(prefix + "encoder.layers." + std::to_string(spec.num_layers + i) + ".");
    }
  }
}

}  // namespace

void add_clip_tower(Blueprint& blueprint, const VisionSpec& spec, std::vector<std::string> prefixes,
                    std::int32_t source) {
  blueprint.vision = spec;
  ignore_after_features(blueprint, spec, prefixes, source);
  blueprint.add_group({.part = Part::kTower, .prefixes = std::move(prefixes), .source = source});
  VitTowerIds& ids = blueprint.tower;
  if (spec.class_tokens > 0) {
    ids.class_embedding = blueprint.add_vector("embeddings.class_embedding", spec.hidden);
  }
  ids.patch_embedding = add_patch_embedding(blueprint, spec, "embeddings.patch_embedding.");
  ids.positions = blueprint.add(
      {.name = "embeddings.position_embedding.weight", .shape = {spec.num_positions, spec.hidden}});
  // The name is misspelled in every checkpoint.
  if (spec.vit.pre_norm) ids.pre_norm = blueprint.add_norm("pre_layrnorm.", spec.hidden);
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    ids.layers.push_back(
        add_layer(blueprint, spec, "encoder.layers." + std::to_string(i) + ".", kClipLayer));
  }
}

void add_intern_vit(Blueprint& blueprint, const VisionSpec& spec, std::vector<std::string> prefixes,
                    std::int32_t source) {
  CAPTION_CHECK(spec.class_tokens == 1 && !spec.vit.pre_norm, "blueprint: no InternViT");
  blueprint.vision = spec;
  for (const std::string& prefix : prefixes) {
    blueprint.ignored.push_back({.source = source, .prefix = prefix + "embeddings.mask_token"});
  }
  blueprint.add_group({.part = Part::kTower, .prefixes = std::move(prefixes), .source = source});
  VitTowerIds& ids = blueprint.tower;
  ids.class_embedding =
      blueprint.add({.name = "embeddings.cls_token", .shape = {1, 1, spec.hidden}});
  blueprint.set_other_layout(ids.class_embedding, {.name = "embeddings.class_embedding"});
  ids.patch_embedding =
      add_patch_embedding(blueprint, spec, "embeddings.patch_embeddings.projection.");
  blueprint.set_other_layout(ids.patch_embedding, {.name = "embeddings.patch_embedding."});
  ids.positions = blueprint.add(
      {.name = "embeddings.position_embeddings", .shape = {1, spec.num_positions, spec.hidden}});
  blueprint.set_other_layout(ids.positions, {.name = "embeddings.position_embedding"});
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    const std::string number = std::to_string(i);
    const std::string stem = "encoder.layer." + number + ".";
    VitLayerIds layer = add_layer(blueprint, spec, stem, kInternLayer);
    add_intern_extras(blueprint, spec, stem, layer);
    set_chat_layout(blueprint, spec, "encoder.layers." + number + ".", layer);
    ids.layers.push_back(layer);
  }
}

void add_intern_projector(Blueprint& blueprint, const VisionSpec& spec,
                          std::vector<std::string> prefixes, std::int32_t source) {
  CAPTION_CHECK(spec.projector_norm && spec.projector.size() == 2, "blueprint: no such projector");
  blueprint.vision = spec;
  blueprint.add_group(
      {.part = Part::kProjector, .prefixes = std::move(prefixes), .source = source});
  blueprint.projector_norm = blueprint.add_norm("layer_norm.", spec.merged_columns());
  blueprint.set_other_layout(blueprint.projector_norm, {.name = "0."});
  for (const char* const name : {"linear_1.", "linear_2."}) {
    blueprint.projector.push_back(blueprint.add_linear(
        name, spec.projector[blueprint.projector.size()], Role::kEncoderLinear));
  }
  blueprint.set_other_layout(blueprint.projector[0], {.name = "1."});
  blueprint.set_other_layout(blueprint.projector[1], {.name = "3."});
}

Blueprint clip_tower_blueprint(const VisionSpec& spec) {
  Blueprint blueprint;
  add_clip_tower(blueprint, spec, {""});
  return blueprint;
}

}  // namespace caption::model
