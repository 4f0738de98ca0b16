#include "weights/internal/export_tokens.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/open_file.h"
#include "text/export_tokenizer.h"
#include "weights/internal/own_keys.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;

std::optional<text::TokenId> id_in(const JsonObject& config, const char* key) {
  if (config.type_of(key) != JsonType::kNumber) return std::nullopt;
  return static_cast<text::TokenId>(
      config.get_int(key, 0, -1, std::numeric_limits<std::int32_t>::max()));
}

void add_id(const ExportedModel& model, std::optional<text::TokenId> id, const char* config_key,
            const char* key, GgufFields& fields) {
  if (!id) id = id_in(model.config, config_key);
  if (!id) id = id_in(model.text_config, config_key);
  if (!id || *id < 0 || *id >= model.text.vocab) return;
  fields.add(std::string("tokenizer.ggml.") + key, static_cast<std::uint32_t>(*id));
}

std::string read_template(const fs::path& folder) {
  const fs::path jinja = folder / "chat_template.jinja";
  if (is_present(jinja)) return read_model_file(jinja);
  for (const char* const name :
       {"chat_template.json", "processor_config.json", "tokenizer_config.json"}) {
    if (!is_present(folder / name)) continue;
    const JsonObject config = JsonObject::open(folder / name, ErrorCode::kBadModel);
    if (const auto text = config.find_string_at("chat_template")) return *text;
    for (const JsonObject& named : config.type_of("chat_template") == JsonType::kList
                                       ? config.get_objects("chat_template")
                                       : std::vector<JsonObject>{}) {
      if (named.get_string("name", "") == "default") return named.get_string("template", "");
    }
  }
  return {};
}

}  // namespace

void add_token_fields(const ExportedModel& model, const fs::path& folder, GgufFields& fields) {
  const text::TokenLists lists = text::export_tokenizer(folder, model.text.vocab);
  fields.add_text("tokenizer.ggml.model", lists.model).add_text("tokenizer.ggml.pre", lists.pre);
  fields.add_texts("tokenizer.ggml.tokens", lists.tokens);
  if (!lists.scores.empty()) fields.add_list("tokenizer.ggml.scores", lists.scores);
  fields.add_list("tokenizer.ggml.token_type", lists.types);
  if (!lists.merges.empty()) fields.add_texts("tokenizer.ggml.merges", lists.merges);
  add_id(model, lists.bos_id, "bos_token_id", "bos_token_id", fields);
  add_id(model, lists.eos_id, "eos_token_id", "eos_token_id", fields);
  add_id(model, lists.unknown_id, "unk_token_id", "unknown_token_id", fields);
  add_id(model, lists.padding_id, "pad_token_id", "padding_token_id", fields);
  fields.add("tokenizer.ggml.add_bos_token", lists.adds_bos)
      .add("tokenizer.ggml.add_eos_token", lists.adds_eos);
  if (lists.model == "llama") {
    fields.add("tokenizer.ggml.add_space_prefix", lists.adds_space_prefix);
    if (lists.space_prefix == text::SpacePrefix::kFirstSegment) {
      fields.add_text(kGgufSpacePrefixKey, kGgufFirstSegment);
    } else if (lists.space_prefix == text::SpacePrefix::kEverySegment) {
      fields.add_text(kGgufSpacePrefixKey, kGgufEverySegment);
    }
  }
  const std::string chat_template = read_template(folder);
  if (!chat_template.empty()) fields.add_text("tokenizer.chat_template", chat_template);
  if (!model.config.get_bool("caption_cli_demonstration", false)) return;
  fields.add(kGgufDemonstrationKey, true);
  const std::string unlike = model.config.get_string("caption_cli_unlike", "");
  if (!unlike.empty()) fields.add_text(kGgufUnlikeKey, unlike);
}

}  // namespace caption::weights
