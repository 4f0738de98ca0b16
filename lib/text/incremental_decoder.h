// text/incremental_decoder.h: decodes token ids as they are generated.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace caption::text {

// Converts a growing list of ids to text that never ends inside a character. The pieces concatenate
// to decode() of the whole list; a run of byte-fallback tokens is therefore held back until it
// ends, because only then is it known whether its bytes are characters. For use by one thread at a
// time.
// Source: serves the purpose of DecodeStream of Hugging Face tokenizers
// (tokenizers/src/tokenizer/mod.rs), but keeps bytes per token instead of decoding a prefix again.
class IncrementalDecoder {
 public:
  explicit IncrementalDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  // The text that became final with this token; often empty.
  std::string push(TokenId id);
  // The remaining text: the complete characters of a byte run, and U+FFFD for an incomplete one
  // (one per byte for byte-fallback tokens).
  std::string finish();

 private:
  std::string strip_start(std::string text);

  const Tokenizer& tokenizer_;
  bool is_first_token_ = true;
  std::string byte_run_;  // bytes of a run of byte-fallback tokens that has not ended
  std::string pending_;   // an incomplete character of other tokens
  bool at_start_ = true;
};

}  // namespace caption::text
