// base/unicode_form.h: the normalisation forms of Unicode, for tokenizers that normalise, and so
// that equal-looking texts have equal bytes: macOS decomposes Hangul syllables of file names into
// letters (NFD).
//
// Source: Unicode Standard Annex #15, with the tables of utf8proc (Unicode 15 in utf8proc 2.8), cut
// to Unicode 12.0, that of Hugging Face tokenizers (unicode-normalization-alignments 0.1.12). The
// forms of characters that are in both never change.
#pragma once

#include <string>
#include <string_view>

namespace caption {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// Returns `text` (valid UTF-8) in the form: `text` itself when it needs no change, else a view of
// `*storage`. Time: O(n log m) for runs of at most m combining marks.
std::string_view to_unicode_form(std::string_view text, UnicodeForm form, std::string* storage);

// Canonical composition (NFC) of UTF-8; invalid bytes become U+FFFD first.
std::string to_nfc(std::string_view text);
bool is_nfc(std::string_view text);

}  // namespace caption
