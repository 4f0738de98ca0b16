#include "model/internal/hub_model.h"

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/mend_advice.h"

namespace caption::model {

const std::vector<std::string>& hub_text_prefixes() {
  static const std::vector<std::string> kPrefixes = {"model.language_model.",
                                                     "language_model.model."};
  return kPrefixes;
}

const std::vector<std::string>& hub_head_prefixes() {
  static const std::vector<std::string> kPrefixes = {"", "language_model."};
  return kPrefixes;
}

const std::vector<std::string>& hub_projector_prefixes() {
  static const std::vector<std::string> kPrefixes = {"model.multi_modal_projector.",
                                                     "multi_modal_projector."};
  return kPrefixes;
}

const std::vector<std::string>& hub_tower_prefixes() {
  static const std::vector<std::string> kPrefixes = {"model.vision_tower.vision_model.",
                                                     "vision_tower.vision_model.",
                                                     "model.vision_tower.", "vision_tower."};
  return kPrefixes;
}

JsonObject require_part(const JsonObject& config, std::string_view key, std::string_view family) {
  if (auto part = config.get_object(key)) return *part;
  fail_bad_file(config.name() + ": " + std::string(key) + " is missing; this is no " +
                std::string(family) + " checkpoint");
}

void tie_missing_head(const JsonObject& config, const weights::Source& source, TextConfig& text) {
  const std::vector<std::string>& prefixes = hub_head_prefixes();
  const bool has_head =
      std::any_of(prefixes.begin(), prefixes.end(),
                  [&](const std::string& prefix) { return source.has(prefix + "lm_head.weight"); });
  if (!has_head && config.get_bool("tie_word_embeddings", false)) text.spec.tied_embeddings = true;
}

void start_tokenizer(const ModelFolder& folder, Parts& parts) {
  // A vocabulary of 150,000 tokens takes 0.13 s, as long as packing 1 GB. Where the system starts
  // no thread, the tokenizer is read by get().
  parts.pending_tokenizer = std::async(std::launch::async | std::launch::deferred,
                                       [&folder] { return folder.open_tokenizer(); });
}

void place_hub_parts(const ModelFolder& folder, const TextConfig& text, HubWeights weights,
                     Parts& parts) {
  if (!parts.pending_tokenizer.valid()) start_tokenizer(folder, parts);
  place_parts(parts, weights.blueprint, std::move(weights.sources), weights.format);
  parts.tokenizer = parts.pending_tokenizer.get();
  parts.generation = read_generation_config(folder);
  parts.eos_ids = parts.generation.eos_ids.empty() ? text.eos_ids : parts.generation.eos_ids;
  if (parts.eos_ids.empty() && parts.tokenizer->eos_id()) {
    parts.eos_ids = {*parts.tokenizer->eos_id()};
  }
}

std::int32_t require_token(const text::Tokenizer& tokenizer, std::string_view token) {
  if (const auto id = tokenizer.find_token(token)) return *id;
  throw Error(ErrorCode::kBadModel, "the tokenizer is another model's: it has no token " +
                                        std::string(token) +
                                        ", which the prompt needs; download the folder again");
}

void check_token(const text::Tokenizer& tokenizer, std::string_view token, std::int32_t configured,
                 std::string_view key) {
  const std::optional<text::TokenId> found = tokenizer.find_token(token);
  if (found == configured) return;
  throw Error(ErrorCode::kBadModel, "the tokenizer is another model's: its " + std::string(token) +
                                        " has " +
                                        (found ? "id " + std::to_string(*found) : "no id") +
                                        ", config.json's " + std::string(key) + " is " +
                                        std::to_string(configured) + "; download the folder again");
}

VideoTokenId parse_video_token_id(const JsonObject& config, std::int64_t fallback,
                                  std::int64_t vocab) {
  const bool is_new = config.has("video_token_id") && !config.has("video_token_index");
  const std::string key = is_new ? "video_token_id" : "video_token_index";
  return {.id = static_cast<std::int32_t>(config.get_int(key, fallback, 0, vocab - 1)), .key = key};
}

}  // namespace caption::model
