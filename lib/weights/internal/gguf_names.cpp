#include "weights/internal/gguf_names.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {
namespace {

using namespace std::string_view_literals;

// In a name of the tables, the prefix that the caller chooses.
constexpr std::string_view kTextPrefix = "{text}";

// A name in the file, and in a checkpoint. A * stands for the number of a layer; names that end in
// a dot are stems, to which "weight" or "bias" is added.
struct Rename {
  std::string_view from;
  std::string_view to;
  GgufAssembly assembly = GgufAssembly::kOne;
  std::size_t piece = 0;       // place of this tensor among those that are put together
  std::size_t num_pieces = 1;  // number of tensors that are put together
};

constexpr GgufAssembly kRows = GgufAssembly::kRows;
constexpr GgufAssembly kFrames = GgufAssembly::kFrames;

constexpr Rename kText[] = {
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

constexpr Rename kQwen25Vl[] = {
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

constexpr Rename kQwen3Vl[] = {
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
    // The number is that of the layer after which the merger stands; see number_in_checkpoint().
    {"v.deepstack.*.norm.", "model.visual.deepstack_merger_list.*.norm."},
    {"v.deepstack.*.fc1.", "model.visual.deepstack_merger_list.*.linear_fc1."},
    {"v.deepstack.*.fc2.", "model.visual.deepstack_merger_list.*.linear_fc2."},
};

constexpr Rename kInternVl[] = {
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

constexpr Rename kLlava[] = {
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
  std::span<const Rename> renames;
};
const Tower kTowers[] = {{"qwen2.5vl_merger", kQwen25Vl},
                         {"qwen3vl_merger", kQwen3Vl},
                         {"internvl", kInternVl},
                         {"mlp", kLlava}};

struct Match {
  const Rename* rename = nullptr;
  std::string number;  // in the place of *
  std::string suffix;  // after a stem
};

// Matches a name with a pattern of the tables.
std::optional<Match> match(std::string_view name, const Rename& rename) {
  Match found{.rename = &rename, .number = "", .suffix = ""};
  std::string_view pattern = rename.from;
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

std::optional<Match> find_match(std::string_view name, std::span<const Rename> renames) {
  for (const Rename& rename : renames) {
    if (auto found = match(name, rename)) return found;
  }
  return std::nullopt;
}

std::string name_of(const Match& found, std::string_view text_prefix) {
  std::string name(found.rename->to);
  if (name.starts_with(kTextPrefix)) name.replace(0, kTextPrefix.size(), text_prefix);
  if (const std::size_t star = name.find('*'); star != std::string::npos) {
    name.replace(star, 1, found.number);
  }
  return name + found.suffix;
}

// For every layer of Qwen3-VL the number of the merger after it; -1 where there is none.
std::vector<std::int32_t> number_mergers(const GgufFile& file) {
  constexpr std::string_view kKey = "clip.vision.is_deepstack_layers";
  const std::vector<bool> layers = file.metadata().get_bools(kKey);
  if (layers.size() > file.tensors().size()) {
    throw Error(ErrorCode::kBadModel, file.path().string() + ": " + std::string(kKey) + " lists " +
                                          counted(std::ssize(layers), "layer") +
                                          ", but the file has " +
                                          counted(std::ssize(file.tensors()), "tensor"));
  }
  std::vector<std::int32_t> mergers(layers.size(), -1);
  std::int32_t count = 0;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer]) mergers[layer] = count++;
  }
  return mergers;
}

// Replaces the number of a layer before a merger of Qwen3-VL by the number of the merger.
void replace_layer(const std::vector<std::int32_t>& mergers, const GgufFile& file,
                   const GgufTensor& tensor, Match& found) {
  if (!found.rename->from.starts_with("v.deepstack.")) return;
  const auto layer = static_cast<std::size_t>(std::stoul(found.number));
  if (layer >= mergers.size() || mergers[layer] < 0) {
    throw Error(
        ErrorCode::kBadModel,
        file.describe(tensor) + " is not among the layers of clip.vision.is_deepstack_layers");
  }
  found.number = std::to_string(mergers[layer]);
}

// The old converter of LLaVA gave the two layers of an MLP each other's names.
void exchange_mlp_layers(GgufEntries& entries) {
  constexpr std::string_view kFc1 = ".mlp.fc1."sv;
  for (auto& [name, entry] : entries) {
    const std::size_t at = name.find(kFc1);
    if (at == std::string::npos || !name.ends_with(".weight")) continue;
    const auto other = entries.find(std::string(name).replace(at, kFc1.size(), ".mlp.fc2."));
    if (other == entries.end() || entry.pieces[0]->rank != 2) continue;
    const GgufTensor& fc1 = *entry.pieces[0];
    if (fc1.extents[0] >= fc1.extents[1]) continue;  // an MLP is wider inside
    std::swap(entry, other->second);
    const std::string stem = name.substr(0, name.size() - "weight"sv.size());
    const auto bias_1 = entries.find(stem + "bias");
    const auto bias_2 =
        entries.find(std::string(stem).replace(at, kFc1.size(), ".mlp.fc2.") + "bias");
    if (bias_1 != entries.end() && bias_2 != entries.end()) {
      std::swap(bias_1->second, bias_2->second);
    }
  }
}

[[noreturn]] void fail_unknown(const GgufFile& file, const GgufTensor& tensor,
                               std::string_view architecture) {
  throw Error(ErrorCode::kUnavailable, file.describe(tensor) +
                                           ": is no tensor of the architecture " +
                                           quote_name(architecture) + " that this build runs");
}

void add_piece(const GgufTensor& tensor, const Match& found, std::string_view text_prefix,
               GgufEntries& entries) {
  GgufEntry& entry = entries[name_of(found, text_prefix)];
  entry.assembly = found.rename->assembly;
  entry.pieces.resize(found.rename->num_pieces);
  entry.pieces[found.rename->piece] = &tensor;
}

void check_pieces(const GgufFile& file, const GgufEntries& entries) {
  for (const auto& [name, entry] : entries) {
    const auto& pieces = entry.pieces;
    const auto there = std::find_if(pieces.begin(), pieces.end(),
                                    [](const auto* piece) { return piece != nullptr; });
    if (std::find(pieces.begin(), pieces.end(), nullptr) == pieces.end()) continue;
    throw Error(ErrorCode::kBadModel, file.describe(**there) + ": is a part of " +
                                          quote_name(name) + ", whose other parts are missing");
  }
}

// Sets the rows of the query and key projections of the architecture llama.
void rotate_rows(const GgufMetadata& metadata, GgufEntries& entries) {
  constexpr std::int64_t kMaxHeads = 1 << 20;
  const std::int64_t heads = metadata.require_int("llama.attention.head_count", 1, kMaxHeads);
  const std::int64_t kv_heads =
      metadata.get_int("llama.attention.head_count_kv", heads, 1, kMaxHeads);
  for (auto& [name, entry] : entries) {
    const bool is_query = name.find(".self_attn.q_proj.") != std::string::npos;
    const bool is_key = name.find(".self_attn.k_proj.") != std::string::npos;
    if (!is_query && !is_key) continue;
    entry.assembly = GgufAssembly::kRotatedRows;
    entry.num_heads = is_query ? heads : kv_heads;
  }
}

std::span<const Rename> tower_renames(const GgufFile& file) {
  const std::string type = gguf_projector_type(file);
  for (const Tower& tower : kTowers) {
    if (tower.projector_type == type) return tower.renames;
  }
  throw Error(ErrorCode::kUnavailable,
              file.path().string() + ": clip.projector_type " + quote_name(type) +
                  " is not supported by this build; qwen2.5vl_merger, qwen3vl_merger, internvl "
                  "and mlp are");
}

}  // namespace

std::string gguf_projector_type(const GgufFile& tower) {
  const std::string of_vision = tower.metadata().get_string("clip.vision.projector_type", "mlp");
  return tower.metadata().get_string("clip.projector_type", of_vision);
}

GgufEntries name_gguf_tensors(const GgufFile& file, std::string_view text_prefix) {
  const std::string architecture = file.metadata().require_string("general.architecture");
  constexpr std::array kTextArchitectures = {"llama"sv, "qwen2"sv, "qwen2vl"sv, "qwen3"sv,
                                             "qwen3vl"sv};
  const bool is_text = std::find(kTextArchitectures.begin(), kTextArchitectures.end(),
                                 architecture) != kTextArchitectures.end();
  if (!is_text && architecture != "clip") {
    throw Error(ErrorCode::kUnavailable,
                file.path().string() + ": general.architecture " + quote_name(architecture) +
                    " is not supported by this build; llama, qwen2, qwen2vl, qwen3, qwen3vl and "
                    "clip are");
  }
  const std::span<const Rename> renames = is_text ? std::span(kText) : tower_renames(file);
  std::vector<std::int32_t> mergers;
  if (renames.data() == std::data(kQwen3Vl)) mergers = number_mergers(file);
  GgufEntries entries;
  for (const GgufTensor& tensor : file.tensors()) {
    if (is_text && tensor.name == kGgufRopeFactors) continue;  // gguf_text_config() reads it
    auto found = find_match(tensor.name, renames);
    if (!found) fail_unknown(file, tensor, architecture);
    replace_layer(mergers, file, tensor, *found);
    add_piece(tensor, *found, text_prefix, entries);
  }
  check_pieces(file, entries);
  if (architecture == "llama") rotate_rows(file.metadata(), entries);
  if (renames.data() == std::data(kLlava)) exchange_mlp_layers(entries);
  return entries;
}

}  // namespace caption::weights
