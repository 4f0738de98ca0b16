// Any bytes as the files of a tokenizer: an Error(kBadModel | kUnavailable), or a tokenizer whose
// ids stay in its vocabulary and decode the same at once and piece by piece. A pattern that takes
// too long on a text may also be refused then, by Error(kTooLarge).
// Input: "<config json>\0<text>\0" and one of "<tokenizer.model>", "{<rest of a tokenizer.json>"
// and "V<vocab.json>\0<merges.txt>"; a missing part is empty.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "tests/fuzz/check.h"
#include "text/incremental_decoder.h"
#include "text/internal/open_pipeline.h"
#include "text/internal/sentencepiece_tokenizer.h"

namespace caption::text {
namespace {

std::string_view take_part(std::string_view& rest) {
  const std::string_view part = rest.substr(0, rest.find('\0'));
  rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  return part;
}

void check_decoding(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  for (const TokenId id : ids) {
    fuzz::require(id >= 0 && id < tokenizer.vocab_size(), "ids are in the vocabulary");
  }
  IncrementalDecoder decoder(tokenizer);
  std::string text;
  for (const TokenId id : ids) {
    const std::string piece = decoder.push(id);
    fuzz::require(is_valid_utf8(piece), "pieces are whole characters");
    text += piece;
  }
  text += decoder.finish();
  fuzz::require(text == tokenizer.decode(ids), "pieces join to the whole text");
}

void use(const Tokenizer& tokenizer, std::string_view text) {
  for (const AddedTokens added : {AddedTokens::kRecognise, AddedTokens::kPlainText}) {
    const std::vector<TokenId> ids = tokenizer.encode(text, added);
    check_decoding(tokenizer, ids);
    fuzz::require(tokenizer.encode(make_valid_utf8(text), added) == ids,
                  "invalid bytes encode as their replacement");
  }
  std::vector<TokenId> ids;  // no text gives these
  for (const char c : tokenizer.vocab_size() > 0 ? text : "") {
    ids.push_back(static_cast<std::uint8_t>(c) % tokenizer.vocab_size());
  }
  check_decoding(tokenizer, ids);
}

std::unique_ptr<const Tokenizer> open(TokenizerFiles files, std::string_view rest) {
  if (rest.starts_with('{')) {
    files.tokenizer_json = rest;
    return open_pipeline(std::move(files));
  }
  if (rest.starts_with('V')) {
    rest.remove_prefix(1);
    files.vocab_json = take_part(rest);
    files.merges_txt = rest;
    return open_pipeline(std::move(files));
  }
  // The same bytes as either configuration: the two share most keys.
  files.tokenizer_json = files.tokenizer_config_json;
  files.tokenizer_model = rest;
  return make_sentencepiece_tokenizer(files);
}

}  // namespace
}  // namespace caption::text

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  std::string_view rest = fuzz::as_text(bytes, size);
  text::TokenizerFiles files;
  files.folder = "model";
  files.tokenizer_config_json = text::take_part(rest);
  const std::string_view text = text::take_part(rest);
  try {
    text::use(*text::open(std::move(files), rest), text);
  } catch (const Error& error) {
    fuzz::require(error.code() == ErrorCode::kBadModel || error.code() == ErrorCode::kUnavailable ||
                      error.code() == ErrorCode::kTooLarge,
                  error.what());
    fuzz::require(is_valid_utf8(error.what()), "messages are valid UTF-8");
  }
  return 0;
}
