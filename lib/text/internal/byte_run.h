// text/internal/byte_run.h: decodes a maximal run of byte-fallback tokens.
#pragma once

#include <string>
#include <string_view>

namespace caption::text {

// Decodes a run that another token follows: the run itself when it is valid UTF-8, else one U+FFFD
// per byte. Source: Hugging Face tokenizers, tokenizers/src/decoders/byte_fallback.rs.
std::string decode_byte_run(std::string_view run);

// Decodes a run at the end of the text, where a limit on tokens may have cut it: its complete
// characters, and one U+FFFD for every other byte, as sentencepiece's decoder does.
std::string decode_last_byte_run(std::string_view run);

}  // namespace caption::text
