#include "text/tokenizer.h"

#include <utility>

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

}  // namespace

std::unique_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& model_folder) {
  TokenizerFiles files = read_tokenizer_files(model_folder);
  if (files.tokenizer_model && !has_unigram_json(files)) return make_sentencepiece_tokenizer(files);
  return open_pipeline(std::move(files));
}

}  // namespace caption::text
