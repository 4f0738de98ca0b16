#include "weights/internal/export_names.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "weights/internal/gguf_names.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {
namespace {

constexpr const char* kOtherModel =
    "; weights and config.json are of different models: download the folder again";

// The beginning of names in a checkpoint, and in the tables of gguf_renames.h.
struct Prefix {
  std::string_view from;
  std::string_view to;
};

constexpr Prefix kTextPrefixes[] = {{"model.", kTextPrefix}, {"lm_head.", "lm_head."}};
constexpr Prefix kQwen25Prefixes[] = {{"model.visual.", "model.visual."},
                                      {"visual.", "model.visual."},
                                      {"model.language_model.", kTextPrefix},
                                      {"model.", kTextPrefix},
                                      {"lm_head.", "lm_head."}};
constexpr Prefix kQwen3Prefixes[] = {
    {"model.visual.", "model.visual."},      {"visual.", "model.visual."},
    {"model.language_model.", kTextPrefix},  {"language_model.model.", kTextPrefix},
    {"language_model.lm_head.", "lm_head."}, {"lm_head.", "lm_head."}};
constexpr Prefix kInternVlPrefixes[] = {
    {"model.vision_tower.", "model.vision_tower."},
    {"vision_tower.", "model.vision_tower."},
    {"model.multi_modal_projector.", "model.multi_modal_projector."},
    {"multi_modal_projector.", "model.multi_modal_projector."},
    {"model.language_model.", kTextPrefix},
    {"language_model.model.", kTextPrefix},
    {"language_model.lm_head.", "lm_head."},
    {"lm_head.", "lm_head."}};
constexpr Prefix kInternVlChatPrefixes[] = {{"mlp1.0.", "model.multi_modal_projector.layer_norm."},
                                            {"mlp1.1.", "model.multi_modal_projector.linear_1."},
                                            {"mlp1.3.", "model.multi_modal_projector.linear_2."},
                                            {"language_model.model.", kTextPrefix},
                                            {"language_model.lm_head.", "lm_head."},
                                            {"vision_model.", "vision_model."}};
constexpr Prefix kLlavaPrefixes[] = {
    {"model.vision_tower.vision_model.", "vision_tower.vision_model."},
    {"vision_tower.vision_model.", "vision_tower.vision_model."},
    {"model.vision_tower.", "vision_tower.vision_model."},
    {"vision_tower.", "vision_tower.vision_model."},
    {"model.multi_modal_projector.", "model.multi_modal_projector."},
    {"multi_modal_projector.", "model.multi_modal_projector."},
    {"model.image_newline", "model.image_newline"},
    {"image_newline", "model.image_newline"},
    {"model.language_model.", kTextPrefix},
    {"language_model.model.", kTextPrefix},
    {"language_model.lm_head.", "lm_head."},
    {"lm_head.", "lm_head."}};

std::span<const Prefix> prefixes_of(ExportFamily family) {
  switch (family) {
    case ExportFamily::kQwen25Vl: return kQwen25Prefixes;
    case ExportFamily::kQwen3Vl: return kQwen3Prefixes;
    case ExportFamily::kInternVl: return kInternVlPrefixes;
    case ExportFamily::kInternVlChat: return kInternVlChatPrefixes;
    case ExportFamily::kLlava: return kLlavaPrefixes;
    case ExportFamily::kText: break;
  }
  return kTextPrefixes;
}

// The tower of InternVL's original repositories, whose projections of q, k and v are one.
constexpr GgufAssembly kRows = GgufAssembly::kRows;
constexpr GgufRename kInternVit[] = {
    {"v.class_embd", "vision_model.embeddings.class_embedding"},
    {"v.patch_embd.", "vision_model.embeddings.patch_embedding."},
    {"v.position_embd.weight", "vision_model.embeddings.position_embedding"},
    {"v.blk.*.ln1.", "vision_model.encoder.layers.*.norm1."},
    {"v.blk.*.attn_q.", "vision_model.encoder.layers.*.attn.qkv.", kRows, 0, 3},
    {"v.blk.*.attn_k.", "vision_model.encoder.layers.*.attn.qkv.", kRows, 1, 3},
    {"v.blk.*.attn_v.", "vision_model.encoder.layers.*.attn.qkv.", kRows, 2, 3},
    {"v.blk.*.attn_q_norm.", "vision_model.encoder.layers.*.attn.q_norm."},
    {"v.blk.*.attn_k_norm.", "vision_model.encoder.layers.*.attn.k_norm."},
    {"v.blk.*.attn_out.", "vision_model.encoder.layers.*.attn.proj."},
    {"v.blk.*.ln2.", "vision_model.encoder.layers.*.norm2."},
    {"v.blk.*.ffn_up.", "vision_model.encoder.layers.*.mlp.fc1."},
    {"v.blk.*.ffn_down.", "vision_model.encoder.layers.*.mlp.fc2."},
    {"v.blk.*.ls1.weight", "vision_model.encoder.layers.*.ls1"},
    {"v.blk.*.ls2.weight", "vision_model.encoder.layers.*.ls2"},
    {"mm.model.mlp.0.", "model.multi_modal_projector.layer_norm."},
    {"mm.model.mlp.1.", "model.multi_modal_projector.linear_1."},
    {"mm.model.mlp.3.", "model.multi_modal_projector.linear_2."}};

bool is_qwen3(const ExportedModel& model) {
  return model.text.architecture == "qwen3" || model.text.architecture == "qwen3vl";
}

// Whether a model may lack a tensor of the tables.
bool is_optional(const ExportedModel& model, std::string_view name) {
  if (name.starts_with("blk.*.attn_q_norm") || name.starts_with("blk.*.attn_k_norm")) {
    return !is_qwen3(model);
  }
  constexpr std::string_view kOptional[] = {"v.blk.*.attn_q_norm.", "v.blk.*.attn_k_norm.",
                                            "v.post_ln.", "model.image_newline"};
  const bool is_of_llava = model.family == ExportFamily::kLlava;
  if (name == "v.post_ln.") return is_of_llava;
  return name == "output.weight" ||
         std::find(std::begin(kOptional), std::end(kOptional), name) != std::end(kOptional);
}

// Buffers that transformers computes anew, and what captioners do not read.
bool is_ignored(const ExportedModel& model, std::string_view name) {
  constexpr std::array<std::string_view, 5> kBuffers = {
      "embeddings.position_ids", "rotary_emb.inv_freq", "rotary_emb.cos_cached",
      "rotary_emb.sin_cached", "embeddings.mask_token"};
  const auto ends = [name](std::string_view buffer) { return name.ends_with(buffer); };
  if (std::any_of(kBuffers.begin(), kBuffers.end(), ends)) return true;
  if (model.text.is_tied && name.ends_with("lm_head.weight")) return true;
  return model.family == ExportFamily::kLlava &&
         name.find("vision_model.post_layernorm.") != std::string_view::npos;
}

class Assigner {
 public:
  Assigner(const Source& source, const ExportedModel& model, const ExportedTower* tower)
      : source_(source), model_(model), tower_(tower) {
    if (tower == nullptr) return;
    tower_renames_ = model.family == ExportFamily::kInternVlChat
                         ? std::span(kInternVit)
                         : gguf_tower_renames(tower->projector_type);
  }

  ExportedTensors assign() {
    for (const std::string& name : source_.names()) assign(name);
    check_all(gguf_text_renames(), model_.text.num_layers);
    if (tower_ != nullptr) check_all(tower_renames_, tower_->num_layers);
    check_head();
    if (model_.text.architecture.starts_with("qwen2") && !made_.contains("blk.0.attn_q.bias")) {
      fail_missing(text_prefix_ + "layers.0.self_attn.q_proj.bias");
    }
    if (model_.text.rope.scaling == "llama3") add_divisors();
    sort(found_.text);
    sort(found_.tower);
    return std::move(found_);
  }

 private:
  [[noreturn]] void fail_missing(const std::string& name) const {
    throw Error(ErrorCode::kBadModel,
                source_.name() + ": tensor " + quote_name(name) + " is missing" + kOtherModel);
  }
  [[noreturn]] void fail(ErrorCode code, const std::string& name, const std::string& what) const {
    throw Error(code,
                source_.name() + ": tensor " + quote_name(name) + ": " + what +
                    (code == ErrorCode::kBadModel ? kOtherModel : "; give a folder without it"));
  }

  // The name in the tables; nothing without a known beginning.
  std::optional<std::string> canonical(std::string_view name) {
    for (const Prefix& prefix : prefixes_of(model_.family)) {
      if (!name.starts_with(prefix.from)) continue;
      if (prefix.to == kTextPrefix) text_prefix_ = prefix.from;
      return std::string(prefix.to) + std::string(name.substr(prefix.from.size()));
    }
    return std::nullopt;
  }

  void assign(const std::string& name) {
    if (is_ignored(model_, name)) return;
    const std::optional<std::string> known = canonical(name);
    if (!known) fail_unknown(name);
    const bool is_text = known->starts_with(kTextPrefix) || known->starts_with("lm_head.");
    if (!is_text && tower_ == nullptr) fail_unknown(name);
    const auto renames = is_text ? gguf_text_renames() : tower_renames_;
    bool is_known = false;
    for (const GgufRename& rename : renames) {
      auto found = match_gguf_name(*known, rename, GgufSide::kCheckpoint);
      if (!found) continue;
      is_known = true;
      if (!is_above(*found, is_text, name)) add(name, std::move(*found), is_text);
    }
    if (!is_known) fail_unknown(name);
  }

  [[noreturn]] void fail_unknown(const std::string& name) const {
    fail(ErrorCode::kUnavailable, name,
         "has no place in a GGUF file of the model that config.json describes");
  }

  // Whether a tensor is of a layer that is not written.
  bool is_above(const GgufNameMatch& found, bool is_text, const std::string& name) const {
    if (found.number.empty() || is_merger(found)) return false;
    const std::int64_t layer = std::stoll(found.number);
    const std::int64_t num_layers = is_text ? model_.text.num_layers : tower_->num_layers;
    if (layer < num_layers) return false;
    if (!is_text && model_.family == ExportFamily::kLlava) return true;
    fail(ErrorCode::kBadModel, name,
         "config.json says that there are " + std::to_string(num_layers) + " layers");
  }

  static bool is_merger(const GgufNameMatch& found) {
    return found.rename->from.starts_with("v.deepstack.");
  }

  void add(const std::string& name, GgufNameMatch found, bool is_text) {
    if (is_merger(found)) {
      const auto merger = static_cast<std::size_t>(std::stoul(found.number));
      if (merger >= tower_->mergers.size()) {
        fail(ErrorCode::kBadModel, name,
             "config.json names " + std::to_string(tower_->mergers.size()) +
                 " layers in deepstack_visual_indexes");
      }
      found.number = std::to_string(tower_->mergers[merger]);
    }
    ExportedTensor tensor;
    tensor.header.name = renamed_to_file(found);
    tensor.source = name;
    tensor.shape = *source_.shape(name);
    tensor.part = found.rename->assembly;
    tensor.piece = found.rename->piece;
    tensor.num_pieces = found.rename->num_pieces;
    rotate(tensor);
    set_extents(tensor);
    if (!made_.insert(tensor.header.name).second) {
      fail(ErrorCode::kBadModel, name, "is there twice, under two names");
    }
    (is_text ? found_.text : found_.tower).push_back(std::move(tensor));
  }

  // The architecture llama has the rows of queries and keys in another order.
  void rotate(ExportedTensor& tensor) const {
    if (model_.text.architecture != "llama" || !tensor.header.name.starts_with("blk.")) return;
    const bool is_query = tensor.header.name.find(".attn_q.") != std::string::npos;
    const bool is_key = tensor.header.name.find(".attn_k.") != std::string::npos;
    if (!is_query && !is_key) return;
    tensor.part = GgufAssembly::kRotatedRows;
    tensor.num_heads = is_query ? model_.text.num_heads : model_.text.num_kv_heads;
    const std::int64_t rows = tensor.shape.rank() > 0 ? tensor.shape[0] : 0;
    if (rows % (2 * tensor.num_heads) == 0 && rows > 0) return;
    fail(ErrorCode::kBadModel, tensor.source,
         "has shape " + tensor.shape.to_string() + ", whose rows are not those of " +
             std::to_string(tensor.num_heads) + " heads");
  }

  void set_extents(ExportedTensor& tensor) const {
    std::vector<std::int64_t>& extents = tensor.header.extents;
    for (int axis = 0; axis < tensor.shape.rank(); ++axis) extents.push_back(tensor.shape[axis]);
    const auto pieces = static_cast<std::int64_t>(tensor.num_pieces);
    bool is_cut = true;
    if (tensor.part == GgufAssembly::kRows) {
      is_cut = !extents.empty() && extents[0] % pieces == 0;
      if (is_cut) extents[0] /= pieces;
    }
    if (tensor.part == GgufAssembly::kFrames) {
      is_cut = extents.size() == 5 && extents[2] == pieces;
      if (is_cut) extents.erase(extents.begin() + 2);
    }
    const bool has_values =
        std::all_of(extents.begin(), extents.end(), [](std::int64_t extent) { return extent > 0; });
    if (is_cut && has_values && !extents.empty() && extents.size() <= 4) return;
    fail(ErrorCode::kBadModel, tensor.source,
         "has shape " + tensor.shape.to_string() + ", which is not that of " +
             quote_name(tensor.header.name) + (pieces > 1 ? " and its other parts" : ""));
  }

  // Throws unless every tensor of the tables is there, in every layer, and biases in all or none.
  void check_all(std::span<const GgufRename> renames, std::int64_t num_layers) const {
    for (const GgufRename& rename : renames) {
      if (is_optional(model_, rename.from)) continue;
      const bool is_merger = rename.from.starts_with("v.deepstack.");
      const bool is_layered = rename.from.find('*') != std::string_view::npos;
      const std::int64_t count = is_merger    ? std::ssize(tower_->mergers)
                                 : is_layered ? num_layers
                                              : 1;
      const bool is_stem = rename.from.ends_with('.');
      const bool has_bias = is_stem && count > 0 && is_made(rename, 0, "bias");
      for (std::int64_t i = 0; i < count; ++i) {
        require(rename, i, is_stem ? "weight" : "");
        if (has_bias) require(rename, i, "bias");
      }
    }
  }

  GgufNameMatch match_at(const GgufRename& rename, std::int64_t i, const char* suffix) const {
    const bool is_merger = rename.from.starts_with("v.deepstack.");
    const std::int64_t number = is_merger ? tower_->mergers[static_cast<std::size_t>(i)] : i;
    return {.rename = &rename, .number = std::to_string(number), .suffix = suffix};
  }
  bool is_made(const GgufRename& rename, std::int64_t i, const char* suffix) const {
    return made_.contains(renamed_to_file(match_at(rename, i, suffix)));
  }
  void require(const GgufRename& rename, std::int64_t i, const char* suffix) const {
    if (is_made(rename, i, suffix)) return;
    GgufNameMatch missing = match_at(rename, i, suffix);
    missing.number = std::to_string(i);
    std::string name = renamed_to_checkpoint(missing);
    if (name.starts_with(kTextPrefix)) name.replace(0, kTextPrefix.size(), text_prefix_);
    fail_missing(name);
  }

  // A missing head is tied where the enclosing configuration says so.
  void check_head() const {
    const bool is_tied =
        model_.text.is_tied || model_.config.get_bool("tie_word_embeddings", false);
    if (!is_tied && !made_.contains("output.weight")) fail_missing("lm_head.weight");
  }

  void add_divisors() {
    ExportedTensor tensor;
    tensor.header.name = std::string(kGgufRopeFactors);
    tensor.values = llama3_divisors(model_.text);
    tensor.header.extents = {std::ssize(tensor.values)};
    found_.text.push_back(std::move(tensor));
  }

  // Tensors outside the layers first, then layer after layer.
  static void sort(std::vector<ExportedTensor>& tensors) {
    const auto key = [](const ExportedTensor& tensor) {
      const std::string& name = tensor.header.name;
      const std::size_t digit = name.find_first_of("0123456789");
      const bool is_layer = name.starts_with("blk.") || name.starts_with("v.blk.");
      const std::int64_t layer = is_layer ? std::stoll(name.substr(digit)) : -1;
      return std::tuple<std::int64_t, const std::string&>(layer, name);
    };
    std::sort(tensors.begin(), tensors.end(),
              [&](const ExportedTensor& a, const ExportedTensor& b) { return key(a) < key(b); });
  }

  const Source& source_;
  const ExportedModel& model_;
  const ExportedTower* tower_;
  std::span<const GgufRename> tower_renames_;
  std::string text_prefix_ = "model.";  // in this checkpoint
  std::set<std::string> made_;          // names in the files
  ExportedTensors found_;
};

}  // namespace

ExportedTensors assign_tensors(const Source& source, const ExportedModel& model,
                               const ExportedTower* tower) {
  return Assigner(source, model, tower).assign();
}

}  // namespace caption::weights
