#include "base/nfc.h"

#include <utf8proc.h>

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"

namespace caption {
namespace {

// True for text that consists of Hangul syllables and characters below U+0300 (the first combining
// mark), as nearly all captions do: such text is already in NFC.
bool has_nothing_to_compose(const std::string& valid) {
  for (std::size_t i = 0; i < valid.size(); ++i) {
    const auto lead = static_cast<unsigned char>(valid[i]);
    if (lead < 0xCC) continue;  // ASCII, continuation bytes, and leads of U+0080..U+02FF
    if (lead < 0xEA || lead > 0xED) return false;
    const auto second = static_cast<unsigned char>(valid[i + 1]);
    const auto third = static_cast<unsigned char>(valid[i + 2]);
    if (lead == 0xEA && second < 0xB0) return false;  // below U+AC00
    if (lead == 0xED && (second > 0x9E || (second == 0x9E && third > 0xA3))) return false;
    i += 2;
  }
  return true;
}

struct Free {
  void operator()(utf8proc_uint8_t* bytes) const { std::free(bytes); }
};

}  // namespace

std::string to_nfc(std::string_view text) {
  std::string valid = make_valid_utf8(text);
  if (has_nothing_to_compose(valid)) return valid;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(valid.data()),
                   static_cast<utf8proc_ssize_t>(valid.size()), &mapped,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, Free> owner(mapped);
  CAPTION_CHECK(size >= 0, std::string("utf8proc: ") + utf8proc_errmsg(size));
  return std::string(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size));
}

bool is_nfc(std::string_view text) { return to_nfc(text) == text; }

}  // namespace caption
