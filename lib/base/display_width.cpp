#include "base/display_width.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/utf8.h"

namespace caption {
namespace {

struct CodePoints {
  char32_t first;
  char32_t last;
};

// Ascending. Marks of scripts that are not listed (Indic ones above all) count as one column.
constexpr std::array kNoColumn = {
    CodePoints{0x0000, 0x001F},    // C0
    CodePoints{0x007F, 0x009F},    // DEL, C1
    CodePoints{0x0300, 0x036F},    // combining diacritical marks
    CodePoints{0x0483, 0x0489},    // Cyrillic
    CodePoints{0x0591, 0x05BD},    // Hebrew points
    CodePoints{0x064B, 0x065F},    // Arabic vowels
    CodePoints{0x0E34, 0x0E3A},    // Thai vowels
    CodePoints{0x0E47, 0x0E4E},    // Thai tones
    CodePoints{0x1160, 0x11FF},    // Hangul vowels and final consonants
    CodePoints{0x1AB0, 0x1ACE},    // combining diacritical marks, extended
    CodePoints{0x1DC0, 0x1DFF},    // combining diacritical marks, supplement
    CodePoints{0x200B, 0x200D},    // zero-width space and joiners
    CodePoints{0x2060, 0x2060},    // word joiner
    CodePoints{0x20D0, 0x20F0},    // combining marks for symbols
    CodePoints{0x302A, 0x302D},    // ideographic tone marks
    CodePoints{0x3099, 0x309A},    // kana voicing marks
    CodePoints{0xD7B0, 0xD7FB},    // Hangul vowels and final consonants, extended
    CodePoints{0xFE00, 0xFE0E},    // variation selectors except the 16th, which makes emoji wide
    CodePoints{0xFE20, 0xFE2F},    // combining half marks
    CodePoints{0xFEFF, 0xFEFF},    // byte order mark
    CodePoints{0xE0100, 0xE01EF},  // variation selectors, supplement
};

// Ascending. Classes W and F; whole blocks where nearly all characters of a block are in them.
constexpr std::array kTwoColumns = {
    CodePoints{0x1100, 0x115F},    // Hangul first consonants
    CodePoints{0x231A, 0x231B},    // watch, hourglass
    CodePoints{0x2329, 0x232A},    // angle brackets
    CodePoints{0x23E9, 0x23F3},    // media controls, clocks
    CodePoints{0x25FD, 0x25FE},    // small squares
    CodePoints{0x2614, 0x2615},    // umbrella, hot beverage
    CodePoints{0x2648, 0x2653},    // zodiac
    CodePoints{0x267F, 0x26FD},    // emoji among miscellaneous symbols
    CodePoints{0x2705, 0x2757},    // emoji among dingbats
    CodePoints{0x2795, 0x2797},    // plus, minus, division
    CodePoints{0x27B0, 0x27BF},    // loops
    CodePoints{0x2B1B, 0x2B1C},    // large squares
    CodePoints{0x2B50, 0x2B55},    // star, circle
    CodePoints{0x2E80, 0x303E},    // CJK radicals, symbols and punctuation
    CodePoints{0x3041, 0x4DBF},    // kana, compatibility Jamo, CJK symbols and extension A
    CodePoints{0x4E00, 0xA4CF},    // CJK ideographs, Yi
    CodePoints{0xA960, 0xA97C},    // Hangul first consonants, extended
    CodePoints{0xAC00, 0xD7A3},    // Hangul syllables
    CodePoints{0xF900, 0xFAFF},    // CJK compatibility ideographs
    CodePoints{0xFE10, 0xFE19},    // vertical forms
    CodePoints{0xFE30, 0xFE6B},    // CJK compatibility forms, small forms
    CodePoints{0xFF01, 0xFF60},    // full-width forms
    CodePoints{0xFFE0, 0xFFE6},    // full-width signs
    CodePoints{0x16FE0, 0x18CFF},  // Tangut, Khitan
    CodePoints{0x1AFF0, 0x1B2FF},  // kana supplement and extensions, Nushu
    CodePoints{0x1F000, 0x1FAFF},  // tiles, cards, enclosed letters, emoji
    CodePoints{0x20000, 0x3FFFD},  // CJK extensions B and following
};

template <std::size_t kSize>
constexpr bool contains(const std::array<CodePoints, kSize>& table, char32_t character) {
  const auto range =
      std::lower_bound(table.begin(), table.end(), character,
                       [](const CodePoints& points, char32_t c) { return points.last < c; });
  return range != table.end() && range->first <= character;
}

constexpr char32_t kReplacement = 0xFFFD;
constexpr std::u32string_view kEllipsis = U"...";

// True for characters that move the cursor or change the direction of writing.
bool is_unsafe(char32_t c) {
  const bool is_control = c < 0x20 || (c >= 0x7F && c <= 0x9F);
  const bool is_separator = c == 0x2028 || c == 0x2029;
  const bool is_direction = c == 0x061C || c == 0x200E || c == 0x200F ||
                            (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x206F);
  return is_control || is_separator || is_direction;
}

int width_of(std::u32string_view text) {
  int columns = 0;
  for (const char32_t c : text) columns += display_width(c);
  return columns;
}

// The longest prefix of at most `columns` columns, with the combining marks of its last character.
std::u32string_view begin_of(std::u32string_view text, int columns) {
  std::size_t length = 0;
  for (; length < text.size(); ++length) {
    columns -= display_width(text[length]);
    if (columns < 0) break;
  }
  return text.substr(0, length);
}

// The longest suffix of at most `columns` columns that does not begin with a combining mark.
std::u32string_view end_of(std::u32string_view text, int columns) {
  std::size_t begin = text.size();
  for (std::size_t i = text.size(); i > 0; --i) {
    const int width = display_width(text[i - 1]);
    columns -= width;
    if (columns < 0) break;
    if (width > 0) begin = i - 1;
  }
  return text.substr(begin);
}

}  // namespace

int display_width(char32_t character) {
  if (character >= 0x20 && character < 0x7F) return 1;
  if (contains(kNoColumn, character)) return 0;
  return contains(kTwoColumns, character) ? 2 : 1;
}

int display_width(std::string_view text) { return width_of(decode_utf8_lossy(text)); }

std::string printable(std::string_view text) {
  std::u32string characters = decode_utf8_lossy(text);
  std::replace_if(characters.begin(), characters.end(), is_unsafe, kReplacement);
  return encode_utf8(characters);
}

std::string shorten_middle(std::string_view text, int columns) {
  const std::u32string characters = decode_utf8_lossy(text);
  if (width_of(characters) <= columns) return encode_utf8(characters);
  const int left = columns - static_cast<int>(kEllipsis.size());
  if (left < 1) return encode_utf8(begin_of(characters, columns));
  const std::u32string_view begin = begin_of(characters, left / 2);
  const std::u32string_view end = end_of(characters, left - width_of(begin));
  return encode_utf8(std::u32string(begin).append(kEllipsis).append(end));
}

std::string shorten_path(std::string_view path, int columns) {
  if (display_width(path) <= columns) return encode_utf8(decode_utf8_lossy(path));
  // The first slash whose suffix fits keeps the most folders.
  for (std::size_t at = path.find('/', 1); at != std::string_view::npos;
       at = path.find('/', at + 1)) {
    const std::string_view end = path.substr(at);
    if (end.size() < 2 || display_width(end) + 3 > columns) continue;
    return encode_utf8(std::u32string(kEllipsis).append(decode_utf8_lossy(end)));
  }
  return shorten_middle(path.substr(path.rfind('/') + 1), columns);
}

}  // namespace caption
