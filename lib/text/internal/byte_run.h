// text/internal/byte_run.h: the text of a maximal run of byte-fallback tokens.
#pragma once

#include <string>
#include <string_view>

namespace caption::text {

// A run that another token follows: the run itself when it is valid UTF-8, else one U+FFFD for
// every byte of it (as the ByteFallback decoder of Hugging Face's tokenizers).
std::string decode_byte_run(std::string_view run);

// The run that ends the text, where a limit on tokens may have cut it: its whole characters, and
// one U+FFFD for every other byte (as sentencepiece's own decoder).
std::string decode_last_byte_run(std::string_view run);

}  // namespace caption::text
