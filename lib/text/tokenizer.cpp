#include "text/tokenizer.h"

#include <string>
#include <utility>

#include "base/log.h"
#include "text/internal/open_pipeline.h"
#include "text/internal/sentencepiece_tokenizer.h"
#include "text/internal/tokenizer_choice.h"
#include "text/internal/tokenizer_files.h"

namespace caption::text {
namespace {

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
  if (is_sentencepiece(files)) return make_sentencepiece_tokenizer(files);
  return open_pipeline(std::move(files));
}

}  // namespace caption::text
