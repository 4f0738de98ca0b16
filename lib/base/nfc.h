// base/nfc.h: canonical composition (NFC), so that equal-looking texts have equal bytes: macOS
// decomposes Hangul syllables of file names into letters (NFD).
// Source: Unicode Standard Annex #15, as implemented by utf8proc.
#pragma once

#include <string>
#include <string_view>

namespace caption {

// Canonical composition (NFC) of UTF-8; invalid bytes become U+FFFD first.
std::string to_nfc(std::string_view text);
bool is_nfc(std::string_view text);

}  // namespace caption
