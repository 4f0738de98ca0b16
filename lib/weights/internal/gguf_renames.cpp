#include "weights/internal/gguf_renames.h"

#include <algorithm>

namespace caption::weights {
namespace {

constexpr GgufAssembly kRows = GgufAssembly::kRows;
constexpr GgufAssembly kFrames = GgufAssembly::kFrames;

constexpr GgufRename kText[] = {
    {"token_embd.weight", "{text}embed_tokens.weight"},
    {"output_norm.weight", "{text}norm.weight"},
    {"output.weight", "lm_head.weight"},
    {"blk.*.attn_norm.", "{text}layers.*.input_layernorm."},
    {"blk.*.attn_q.", "{text}layers.*.self_attn.q_proj."},
    {"blk.*.attn_k.", "{text}layers.*.self_attn.k_proj."},
    {"blk.*.attn_v.", "{text}layers.*.self_attn.v_proj."},
    {"blk.*.attn_output.", "{text}layers.*.self_attn.o_proj."},
    {"blk.*.attn_q_norm.", "{text}layers.*.self_attn.q_norm."},
    {"blk.*.attn_k_norm.", "{text}layers.*.self_attn.k_norm."},
    {"blk.*.ffn_norm.", "{text}layers.*.post_attention_layernorm."},
    {"blk.*.ffn_gate.", "{text}layers.*.mlp.gate_proj."},
    {"blk.*.ffn_up.", "{text}layers.*.mlp.up_proj."},
    {"blk.*.ffn_down.", "{text}layers.*.mlp.down_proj."},
};

constexpr GgufRename kQwen25Vl[] = {
    {"v.patch_embd.weight", "model.visual.patch_embed.proj.weight", kFrames, 0, 2},
    {"v.patch_embd.weight.1", "model.visual.patch_embed.proj.weight", kFrames, 1, 2},
    {"v.blk.*.ln1.", "model.visual.blocks.*.norm1."},
    {"v.blk.*.attn_q.", "model.visual.blocks.*.attn.qkv.", kRows, 0, 3},
    {"v.blk.*.attn_k.", "model.visual.blocks.*.attn.qkv.", kRows, 1, 3},
    {"v.blk.*.attn_v.", "model.visual.blocks.*.attn.qkv.", kRows, 2, 3},
    {"v.blk.*.attn_out.", "model.visual.blocks.*.attn.proj."},
    {"v.blk.*.ln2.", "model.visual.blocks.*.norm2."},
    {"v.blk.*.ffn_gate.", "model.visual.blocks.*.mlp.gate_proj."},
    {"v.blk.*.ffn_up.", "model.visual.blocks.*.mlp.up_proj."},
    {"v.blk.*.ffn_down.", "model.visual.blocks.*.mlp.down_proj."},
    {"v.post_ln.", "model.visual.merger.ln_q."},
    {"mm.0.", "model.visual.merger.mlp.0."},
    {"mm.2.", "model.visual.merger.mlp.2."},
};

constexpr GgufRename kQwen3Vl[] = {
    {"v.patch_embd.weight", "model.visual.patch_embed.proj.weight", kFrames, 0, 2},
    {"v.patch_embd.weight.1", "model.visual.patch_embed.proj.weight", kFrames, 1, 2},
    {"v.patch_embd.bias", "model.visual.patch_embed.proj.bias"},
    {"v.position_embd.weight", "model.visual.pos_embed.weight"},
    {"v.blk.*.ln1.", "model.visual.blocks.*.norm1."},
    {"v.blk.*.attn_qkv.", "model.visual.blocks.*.attn.qkv."},
    {"v.blk.*.attn_out.", "model.visual.blocks.*.attn.proj."},
    {"v.blk.*.ln2.", "model.visual.blocks.*.norm2."},
    {"v.blk.*.ffn_up.", "model.visual.blocks.*.mlp.linear_fc1."},
    {"v.blk.*.ffn_down.", "model.visual.blocks.*.mlp.linear_fc2."},
    {"v.post_ln.", "model.visual.merger.norm."},
    {"mm.0.", "model.visual.merger.linear_fc1."},
    {"mm.2.", "model.visual.merger.linear_fc2."},
    // The number in a file is that of the layer after which the merger stands, the number in a
    // checkpoint that of the merger: replace_layer() of gguf_names.cpp.
    {"v.deepstack.*.norm.", "model.visual.deepstack_merger_list.*.norm."},
    {"v.deepstack.*.fc1.", "model.visual.deepstack_merger_list.*.linear_fc1."},
    {"v.deepstack.*.fc2.", "model.visual.deepstack_merger_list.*.linear_fc2."},
};

constexpr GgufRename kInternVl[] = {
    {"v.class_embd", "model.vision_tower.embeddings.cls_token"},
    {"v.patch_embd.", "model.vision_tower.embeddings.patch_embeddings.projection."},
    {"v.position_embd.weight", "model.vision_tower.embeddings.position_embeddings"},
    {"v.blk.*.ln1.", "model.vision_tower.encoder.layer.*.layernorm_before."},
    {"v.blk.*.attn_q.", "model.vision_tower.encoder.layer.*.attention.q_proj."},
    {"v.blk.*.attn_k.", "model.vision_tower.encoder.layer.*.attention.k_proj."},
    {"v.blk.*.attn_v.", "model.vision_tower.encoder.layer.*.attention.v_proj."},
    {"v.blk.*.attn_q_norm.", "model.vision_tower.encoder.layer.*.attention.q_norm."},
    {"v.blk.*.attn_k_norm.", "model.vision_tower.encoder.layer.*.attention.k_norm."},
    {"v.blk.*.attn_out.", "model.vision_tower.encoder.layer.*.attention.projection_layer."},
    {"v.blk.*.ln2.", "model.vision_tower.encoder.layer.*.layernorm_after."},
    {"v.blk.*.ffn_up.", "model.vision_tower.encoder.layer.*.mlp.fc1."},
    {"v.blk.*.ffn_down.", "model.vision_tower.encoder.layer.*.mlp.fc2."},
    {"v.blk.*.ls1.weight", "model.vision_tower.encoder.layer.*.lambda_1"},
    {"v.blk.*.ls2.weight", "model.vision_tower.encoder.layer.*.lambda_2"},
    {"mm.model.mlp.0.", "model.multi_modal_projector.layer_norm."},
    {"mm.model.mlp.1.", "model.multi_modal_projector.linear_1."},
    {"mm.model.mlp.3.", "model.multi_modal_projector.linear_2."},
};

constexpr GgufRename kLlava[] = {
    {"v.class_embd", "vision_tower.vision_model.embeddings.class_embedding"},
    {"v.patch_embd.", "vision_tower.vision_model.embeddings.patch_embedding."},
    {"v.position_embd.weight", "vision_tower.vision_model.embeddings.position_embedding.weight"},
    {"v.pre_ln.", "vision_tower.vision_model.pre_layrnorm."},
    {"v.post_ln.", "vision_tower.vision_model.post_layernorm."},
    {"v.blk.*.ln1.", "vision_tower.vision_model.encoder.layers.*.layer_norm1."},
    {"v.blk.*.attn_q.", "vision_tower.vision_model.encoder.layers.*.self_attn.q_proj."},
    {"v.blk.*.attn_k.", "vision_tower.vision_model.encoder.layers.*.self_attn.k_proj."},
    {"v.blk.*.attn_v.", "vision_tower.vision_model.encoder.layers.*.self_attn.v_proj."},
    {"v.blk.*.attn_out.", "vision_tower.vision_model.encoder.layers.*.self_attn.out_proj."},
    {"v.blk.*.ln2.", "vision_tower.vision_model.encoder.layers.*.layer_norm2."},
    {"v.blk.*.ffn_up.", "vision_tower.vision_model.encoder.layers.*.mlp.fc1."},
    {"v.blk.*.ffn_down.", "vision_tower.vision_model.encoder.layers.*.mlp.fc2."},
    {"mm.0.", "model.multi_modal_projector.linear_1."},
    {"mm.2.", "model.multi_modal_projector.linear_2."},
    {"model.image_newline", "model.image_newline"},
};

struct Tower {
  std::string_view projector_type;
  std::span<const GgufRename> renames;
};
const Tower kTowers[] = {{"qwen2.5vl_merger", kQwen25Vl},
                         {"qwen3vl_merger", kQwen3Vl},
                         {"internvl", kInternVl},
                         {"mlp", kLlava}};

std::string fill(std::string_view pattern, const GgufNameMatch& found) {
  std::string name(pattern);
  if (const std::size_t star = name.find('*'); star != std::string::npos) {
    name.replace(star, 1, found.number);
  }
  return name + found.suffix;
}

}  // namespace

std::span<const GgufRename> gguf_text_renames() { return kText; }

std::span<const GgufRename> gguf_tower_renames(std::string_view projector_type) {
  for (const Tower& tower : kTowers) {
    if (tower.projector_type == projector_type) return tower.renames;
  }
  return {};
}

std::optional<GgufNameMatch> match_gguf_name(std::string_view name, const GgufRename& rename,
                                             GgufSide side) {
  GgufNameMatch found{.rename = &rename, .number = "", .suffix = ""};
  std::string_view pattern = side == GgufSide::kFile ? rename.from : rename.to;
  if (const std::size_t star = pattern.find('*'); star != std::string_view::npos) {
    if (!name.starts_with(pattern.substr(0, star))) return std::nullopt;
    name.remove_prefix(star);
    pattern.remove_prefix(star + 1);
    const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    constexpr std::size_t kMaxDigits = 6;
    if (digits == 0 || digits > kMaxDigits || (digits > 1 && name[0] == '0')) return std::nullopt;
    found.number = name.substr(0, digits);
    name.remove_prefix(digits);
  }
  if (!pattern.ends_with('.')) return name == pattern ? std::optional(found) : std::nullopt;
  if (!name.starts_with(pattern)) return std::nullopt;
  name.remove_prefix(pattern.size());
  if (name != "weight" && name != "bias") return std::nullopt;
  found.suffix = name;
  return found;
}

std::string renamed_to_checkpoint(const GgufNameMatch& found) {
  return fill(found.rename->to, found);
}

std::string renamed_to_file(const GgufNameMatch& found) { return fill(found.rename->from, found); }

}  // namespace caption::weights
