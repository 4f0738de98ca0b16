// text/internal/byte_run.h: the text of a maximal run of byte-fallback tokens.
#pragma once

#include <string>
#include <string_view>

namespace caption::text {

// The run itself when it is valid UTF-8, else one U+FFFD for every byte of it.
std::string decode_byte_run(std::string_view run);

}  // namespace caption::text
