#include "text/tokenizer.h"

#include "text/internal/sentencepiece_tokenizer.h"
#include "text/internal/tokenizer_files.h"

namespace caption::text {

std::unique_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& model_folder) {
  return make_sentencepiece_tokenizer(read_tokenizer_files(model_folder));
}

}  // namespace caption::text
