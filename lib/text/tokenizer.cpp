#include "text/tokenizer.h"

#include <string>
#include <utility>

#include "base/log.h"
#include "text/internal/open_pipeline.h"
#include "text/internal/sentencepiece_file.h"
#include "text/internal/sentencepiece_tokenizer.h"
#include "text/internal/tokenizer_files.h"
#include "text/internal/tokenizer_json.h"

namespace caption::text {
namespace {

// A tokenizer.json says more than a unigram tokenizer.model, whose normalisation is not read.
bool has_unigram_json(const TokenizerFiles& files) {
  if (!files.tokenizer_json ||
      model_type_of_tokenizer_json(*files.tokenizer_json, files.folder + "/tokenizer.json") !=
          "Unigram") {
    return false;
  }
  const SentencePieceModel model = parse_sentencepiece_model(files.tokenizer_model.value_or(""),
                                                             files.folder + "/tokenizer.model");
  return model.type == SentencePieceModel::Type::kUnigram;
}

// Says which settings are assumed where tokenizer_config.json is missing: they decide what stands
// before a prompt.
void warn_of_assumptions(const TokenizerFiles& files) {
  if (files.tokenizer_config_json) return;
  const std::string is_missing = files.folder + ": tokenizer_config.json is missing; ";
  if (!files.tokenizer_model) {
    log_warning("text", is_missing +
                            "assumed is what tokenizer.json itself says, without a tokenizer class "
                            "that adds <s> or a space before a prompt");
    return;
  }
  const PrefixRule rule = parse_tokenizer_config(files).prefix_rule;
  log_warning("text",
              is_missing + "assumed are LlamaTokenizer, add_bos_token true and a space before " +
                  (rule == PrefixRule::kNone           ? "no text"
                   : rule == PrefixRule::kFirstSegment ? "the first word (legacy false)"
                                                       : "each part of the text (legacy true)"));
}

}  // namespace

std::unique_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& model_folder) {
  TokenizerFiles files = read_tokenizer_files(model_folder);
  warn_of_assumptions(files);
  if (files.tokenizer_model && !has_unigram_json(files)) return make_sentencepiece_tokenizer(files);
  return open_pipeline(std::move(files));
}

}  // namespace caption::text
