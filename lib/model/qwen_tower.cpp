// The parameters of the vision towers of Qwen2.5-VL and Qwen3-VL. Sources: transformers 4.57.6
// modeling_qwen2_5_vl.py, modeling_qwen3_vl.py.
#include <utility>

#include "model/blueprint.h"

namespace caption::model {
namespace {

LinearIds add_layer(Blueprint& blueprint, const std::string& stem, std::int64_t out,
                    std::int64_t in, ShardAxis shard = ShardAxis::kNone) {
  return blueprint.add_linear(stem, {.out = out, .in = in}, Role::kEncoderLinear, shard);
}

NormIds add_norm(Blueprint& blueprint, const VisionSpec& spec, const std::string& stem,
                 std::int64_t size) {
  if (spec.qwen.norm == Norm::kLayer) return blueprint.add_norm(stem, size);
  return {.weight = blueprint.add_vector(stem + "weight", size, Fill::kOne)};
}

ParameterId add_patch_embedding(Blueprint& blueprint, const VisionSpec& spec) {
  return blueprint.add(
      {.name = "patch_embed.proj.weight",
       .shape = {spec.hidden, 3, spec.frames_per_image, spec.patch_px, spec.patch_px},
       .role = Role::kPatchEmbedding});
}

QwenBlockIds add_block(Blueprint& blueprint, const VisionSpec& spec, const std::string& stem) {
  const std::int64_t hidden = spec.hidden;
  const std::int64_t inner = spec.intermediate;
  const bool gated = spec.qwen.gated_mlp;
  const std::string up = stem + (gated ? "mlp.up_proj." : "mlp.linear_fc1.");
  const std::string down = stem + (gated ? "mlp.down_proj." : "mlp.linear_fc2.");
  QwenBlockIds ids = {
      .norm_1 = add_norm(blueprint, spec, stem + "norm1.", hidden),
      .qkv = add_layer(blueprint, stem + "attn.qkv.", 3 * hidden, hidden, ShardAxis::kRows),
      .proj = add_layer(blueprint, stem + "attn.proj.", hidden, hidden, ShardAxis::kColumns),
      .norm_2 = add_norm(blueprint, spec, stem + "norm2.", hidden),
      .fc1 = add_layer(blueprint, up, inner, hidden, ShardAxis::kRows),
      .fc2 = add_layer(blueprint, down, hidden, inner, ShardAxis::kColumns)};
  if (gated) {
    ids.gate = add_layer(blueprint, stem + "mlp.gate_proj.", inner, hidden, ShardAxis::kRows);
  }
  return ids;
}

void add_blocks(Blueprint& blueprint, const VisionSpec& spec) {
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    blueprint.qwen_tower.blocks.push_back(
        add_block(blueprint, spec, "blocks." + std::to_string(i) + "."));
  }
}

// Names of a merger's parts, each with a dot at its end.
struct MergerNames {
  std::string norm, fc1, fc2;
};

// Adds a merger whose norm is over `norm_size` numbers, and describes it in spec.projector.
QwenMergerIds add_merger(Blueprint& blueprint, VisionSpec& spec, const MergerNames& names,
                         std::int64_t norm_size, std::int64_t out) {
  const std::int64_t merged = spec.merged_patches() * spec.hidden;
  spec.projector.push_back({.out = merged, .in = merged});
  spec.projector.push_back({.out = out, .in = merged});
  return {.norm = add_norm(blueprint, spec, names.norm, norm_size),
          .fc1 = add_layer(blueprint, names.fc1, merged, merged),
          .fc2 = add_layer(blueprint, names.fc2, out, merged)};
}

}  // namespace

void add_qwen3_vl_tower(Blueprint& blueprint, VisionSpec spec, std::int64_t out,
                        std::vector<std::string> prefixes) {
  const std::int64_t hidden = spec.hidden;
  blueprint.add_group({.part = Part::kTower, .prefixes = prefixes});
  QwenTowerIds& ids = blueprint.qwen_tower;
  ids.patch_embedding.weight = add_patch_embedding(blueprint, spec);
  ids.patch_embedding.bias = blueprint.add_vector("patch_embed.proj.bias", hidden, Fill::kZero);
  ids.positions =
      blueprint.add({.name = "pos_embed.weight", .shape = {spec.num_positions, hidden}});
  add_blocks(blueprint, spec);
  blueprint.add_group({.part = Part::kProjector, .prefixes = std::move(prefixes)});
  const auto add = [&](const std::string& stem, std::int64_t norm_size) {
    return add_merger(blueprint, spec, {stem + "norm.", stem + "linear_fc1.", stem + "linear_fc2."},
                      norm_size, out);
  };
  ids.merger = add("merger.", hidden);
  for (std::size_t k = 0; k < spec.deepstack_layers.size(); ++k) {
    ids.deepstack.push_back(
        add("deepstack_merger_list." + std::to_string(k) + ".", spec.merged_patches() * hidden));
  }
  blueprint.vision = std::move(spec);
}

void add_qwen2_5_vl_tower(Blueprint& blueprint, VisionSpec spec, std::int64_t out,
                          std::vector<std::string> prefixes) {
  blueprint.add_group({.part = Part::kTower, .prefixes = prefixes});
  QwenTowerIds& ids = blueprint.qwen_tower;
  ids.patch_embedding.weight = add_patch_embedding(blueprint, spec);
  add_blocks(blueprint, spec);
  blueprint.add_group({.part = Part::kProjector, .prefixes = std::move(prefixes)});
  ids.merger = add_merger(blueprint, spec, {"merger.ln_q.", "merger.mlp.0.", "merger.mlp.2."},
                          spec.hidden, out);
  blueprint.vision = std::move(spec);
}

}  // namespace caption::model
