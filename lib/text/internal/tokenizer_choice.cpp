#include "text/internal/tokenizer_choice.h"

#include <optional>
#include <string>
#include <unordered_set>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "text/internal/pipeline_spec.h"
#include "text/internal/sentencepiece_file.h"
#include "text/internal/tokenizer_json.h"

namespace caption::text {
namespace {

// Returns the first id to which the files give different texts; added tokens, which may replace
// those of the model, do not count.
std::optional<TokenId> find_difference(const SentencePieceModel& model, const PipelineSpec& json) {
  std::unordered_set<TokenId> added;
  for (const AddedToken& token : json.added_tokens) added.insert(token.id);
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    const auto id = static_cast<TokenId>(i);
    if (piece.type != PieceType::kNormal) continue;
    if (json.vocabulary.text(id) != piece.text && !added.contains(id)) return id;
  }
  return std::nullopt;
}

// Returns what tokenizer.json says; nullopt, with a warning, for one that this build does not run,
// or that is no whole tokenizer: then tokenizer.model is the only choice.
std::optional<PipelineSpec> try_json(const TokenizerFiles& files) {
  try {
    return parse_tokenizer_json(*files.tokenizer_json, files.folder + "/tokenizer.json");
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    log_warning("text", files.folder + ": tokenizer.model is read in place of tokenizer.json (" +
                            error.what() + ")");
    return std::nullopt;
  }
}

}  // namespace

bool is_sentencepiece(const TokenizerFiles& files) {
  if (!files.tokenizer_model) return false;
  if (!files.tokenizer_json) return true;
  const SentencePieceModel model =
      parse_sentencepiece_model(*files.tokenizer_model, files.folder + "/tokenizer.model");
  const bool is_unigram_json =
      model_type_of_tokenizer_json(*files.tokenizer_json, files.folder + "/tokenizer.json") ==
      "Unigram";
  if (is_unigram_json && model.type == SentencePieceModel::Type::kUnigram) return false;
  const std::optional<PipelineSpec> json = try_json(files);
  if (!json) return true;
  const std::optional<TokenId> id = find_difference(model, *json);
  if (!id) return true;
  const std::string& theirs = model.pieces[static_cast<std::size_t>(*id)].text;
  log_warning("text", files.folder + ": tokenizer.json and tokenizer.model give the id " +
                          std::to_string(*id) + " to " +
                          json_quote(json->vocabulary.text(*id).value_or("")) + " and " +
                          json_quote(theirs) +
                          "; tokenizer.json counts, as in transformers; remove the other");
  return false;
}

}  // namespace caption::text
