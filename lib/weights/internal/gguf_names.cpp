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
#include "base/mend_advice.h"
#include "weights/internal/gguf_renames.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {
namespace {

using std::string_view_literals::operator""sv;

std::optional<GgufNameMatch> find_match(std::string_view name,
                                        std::span<const GgufRename> renames) {
  for (const GgufRename& rename : renames) {
    if (auto found = match_gguf_name(name, rename, GgufSide::kFile)) return found;
  }
  return std::nullopt;
}

std::string name_of(const GgufNameMatch& found, std::string_view text_prefix) {
  std::string name = renamed_to_checkpoint(found);
  if (name.starts_with(kTextPrefix)) name.replace(0, kTextPrefix.size(), text_prefix);
  return name;
}

// For every layer of Qwen3-VL the number of the merger after it; -1 where there is none.
std::vector<std::int32_t> number_mergers(const GgufFile& file) {
  constexpr std::string_view kKey = "clip.vision.is_deepstack_layers";
  const std::vector<bool> layers = file.metadata().get_bools(kKey);
  if (layers.size() > file.tensors().size()) {
    throw Error(ErrorCode::kBadModel,
                file.path().string() + ": " + std::string(kKey) + " lists " +
                    counted(std::ssize(layers), "layer") + ", but the file has " +
                    counted(std::ssize(file.tensors()), "tensor") + "; " + kConvertAgain);
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
                   const GgufTensor& tensor, GgufNameMatch& found) {
  if (!found.rename->from.starts_with("v.deepstack.")) return;
  const auto layer = static_cast<std::size_t>(std::stoul(found.number));
  if (layer >= mergers.size() || mergers[layer] < 0) {
    throw Error(ErrorCode::kBadModel,
                file.describe(tensor) +
                    " is not among the layers of clip.vision.is_deepstack_layers; " +
                    kConvertAgain);
  }
  found.number = std::to_string(mergers[layer]);
}

// Whether what is named as the first layer of an MLP is the second one. `width` is that between the
// two by the file's keys, or 0; without it, an MLP is wider inside.
bool is_second_layer(const GgufTensor& named_first, std::int64_t width) {
  const auto [outputs, inputs] = std::pair(named_first.extents[0], named_first.extents[1]);
  if ((outputs == width) != (inputs == width)) return inputs == width;
  return outputs < inputs;
}

// The old converter of LLaVA gave the two layers of an MLP each other's names.
void exchange_mlp_layers(const GgufMetadata& keys, GgufEntries& entries) {
  constexpr std::int64_t kMostWidth = std::int64_t{1} << 40;
  const std::int64_t width = keys.get_int("clip.vision.feed_forward_length", 0, 0, kMostWidth);
  constexpr std::string_view kFc1 = ".mlp.fc1."sv;
  for (auto& [name, entry] : entries) {
    const std::size_t at = name.find(kFc1);
    if (at == std::string::npos || !name.ends_with(".weight")) continue;
    const auto other = entries.find(std::string(name).replace(at, kFc1.size(), ".mlp.fc2."));
    if (other == entries.end() || entry.pieces[0]->rank != 2) continue;
    if (!is_second_layer(*entry.pieces[0], width)) continue;
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
  throw Error(ErrorCode::kUnavailable,
              file.describe(tensor) + ": is no tensor of the architecture " +
                  quote_name(architecture) + " that this build runs; run a model without it");
}

void add_piece(const GgufTensor& tensor, const GgufNameMatch& found, std::string_view text_prefix,
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
                                          quote_name(name) + ", whose other parts are missing; " +
                                          kConvertAgain);
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

std::span<const GgufRename> tower_renames(const GgufFile& file) {
  const std::string type = gguf_projector_type(file);
  const std::span<const GgufRename> renames = gguf_tower_renames(type);
  if (!renames.empty()) return renames;
  throw Error(ErrorCode::kUnavailable,
              file.path().string() + ": clip.projector_type " + quote_name(type) +
                  " is not supported by this build; qwen2.5vl_merger, qwen3vl_merger, internvl "
                  "and mlp are");
}

struct Names {
  std::string architecture;
  bool is_text = false;
  std::span<const GgufRename> renames;
};

// Throws Error(kUnavailable) for another architecture or projector.
Names names_of(const GgufFile& file) {
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
  return {.architecture = architecture,
          .is_text = is_text,
          .renames = is_text ? gguf_text_renames() : tower_renames(file)};
}

}  // namespace

std::string gguf_projector_type(const GgufFile& tower) {
  const std::string of_vision = tower.metadata().get_string("clip.vision.projector_type", "mlp");
  return tower.metadata().get_string("clip.projector_type", of_vision);
}

GgufEntries name_gguf_tensors(const GgufFile& file, std::string_view text_prefix) {
  const auto [architecture, is_text, renames] = names_of(file);
  std::vector<std::int32_t> mergers;
  if (renames.data() == gguf_tower_renames("qwen3vl_merger").data()) {
    mergers = number_mergers(file);
  }
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
  if (renames.data() == gguf_tower_renames("mlp").data())
    exchange_mlp_layers(file.metadata(), entries);
  return entries;
}

std::optional<std::string> gguf_name_of(const GgufFile& file, std::string_view text_prefix,
                                        std::string_view tensor) {
  const Names names = names_of(file);
  std::string name(tensor);
  if (names.is_text && tensor.starts_with(text_prefix)) {
    name = std::string(kTextPrefix) + std::string(tensor.substr(text_prefix.size()));
  }
  // The numbers of mergers are in the file's metadata, and which layer of LLaVA's MLP is which in
  // its shapes.
  const bool is_mlp = names.renames.data() == gguf_tower_renames("mlp").data();
  if (name.find(".deepstack_") != std::string::npos) return std::nullopt;
  if (is_mlp && name.find(".mlp.fc") != std::string::npos) return std::nullopt;
  for (const GgufRename& rename : names.renames) {
    if (const auto found = match_gguf_name(name, rename, GgufSide::kCheckpoint)) {
      return renamed_to_file(*found);
    }
  }
  return std::nullopt;
}

}  // namespace caption::weights
