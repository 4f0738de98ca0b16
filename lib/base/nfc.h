// base/nfc.h: canonical composition, one spelling for texts that look alike: macOS writes Hangul
// syllables of file names as their letters.
#pragma once

#include <string>
#include <string_view>

namespace caption {

// Canonical composition (NFC) of UTF-8; invalid bytes become U+FFFD first.
std::string to_nfc(std::string_view text);
bool is_nfc(std::string_view text);

}  // namespace caption
