// The parameters of Qwen3-VL's vision tower. Source: transformers 4.57.6 modeling_qwen3_vl.py.
#include <utility>

#include "model/blueprint.h"

namespace caption::model {
namespace {

LinearIds add_layer(Blueprint& blueprint, const std::string& stem, std::int64_t out,
                    std::int64_t in, ShardAxis shard = ShardAxis::kNone) {
  return blueprint.add_linear(stem, {.out = out, .in = in}, Role::kEncoderLinear, shard);
}

QwenBlockIds add_block(Blueprint& blueprint, const VisionSpec& spec, const std::string& stem) {
  const std::int64_t hidden = spec.hidden;
  const std::int64_t inner = spec.intermediate;
  return {
      .norm_1 = blueprint.add_norm(stem + "norm1.", hidden),
      .qkv = add_layer(blueprint, stem + "attn.qkv.", 3 * hidden, hidden, ShardAxis::kRows),
      .proj = add_layer(blueprint, stem + "attn.proj.", hidden, hidden, ShardAxis::kColumns),
      .norm_2 = blueprint.add_norm(stem + "norm2.", hidden),
      .fc1 = add_layer(blueprint, stem + "mlp.linear_fc1.", inner, hidden, ShardAxis::kRows),
      .fc2 = add_layer(blueprint, stem + "mlp.linear_fc2.", hidden, inner, ShardAxis::kColumns)};
}

}  // namespace

void add_qwen3_vl_tower(Blueprint& blueprint, VisionSpec spec, std::int64_t out,
                        std::vector<std::string> prefixes) {
  const std::int64_t hidden = spec.hidden;
  const std::int64_t merged = spec.pool_stride * spec.pool_stride * hidden;
  blueprint.add_group({.part = Part::kTower, .prefixes = prefixes});
  QwenTowerIds& ids = blueprint.qwen_tower;
  ids.patch_embedding.weight =
      blueprint.add({.name = "patch_embed.proj.weight",
                     .shape = {hidden, 3, spec.frames_per_image, spec.patch_px, spec.patch_px},
                     .role = Role::kPatchEmbedding});
  ids.patch_embedding.bias = blueprint.add_vector("patch_embed.proj.bias", hidden, Fill::kZero);
  ids.positions =
      blueprint.add({.name = "pos_embed.weight", .shape = {spec.num_positions, hidden}});
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    ids.blocks.push_back(add_block(blueprint, spec, "blocks." + std::to_string(i) + "."));
  }
  blueprint.add_group({.part = Part::kProjector, .prefixes = std::move(prefixes)});
  const auto add_merger = [&](const std::string& stem, std::int64_t norm_size) {
    spec.projector.push_back({.out = merged, .in = merged});
    spec.projector.push_back({.out = out, .in = merged});
    return QwenMergerIds{.norm = blueprint.add_norm(stem + "norm.", norm_size),
                         .fc1 = add_layer(blueprint, stem + "linear_fc1.", merged, merged),
                         .fc2 = add_layer(blueprint, stem + "linear_fc2.", out, merged)};
  };
  ids.merger = add_merger("merger.", hidden);
  for (std::size_t k = 0; k < spec.deepstack_layers.size(); ++k) {
    ids.deepstack.push_back(add_merger("deepstack_merger_list." + std::to_string(k) + ".", merged));
  }
  blueprint.vision = std::move(spec);
}

}  // namespace caption::model
