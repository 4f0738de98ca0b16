// Widths of texts in terminal columns, and shortening to a width.
#include "base/display_width.h"

#include <doctest/doctest.h>

#include <string>

#include "base/utf8.h"

namespace caption {
namespace {

TEST_SUITE("base/display_width") {
  TEST_CASE("Hangul and other wide characters take two columns, marks take none") {
    struct Case {
      const char* name;
      const char* text;
      int columns;
    };
    constexpr Case kCases[] = {
        {"nothing", "", 0},
        {"ASCII", "clip 1.mp4", 10},
        {"Hangul syllables", "눈 오는 날", 10},
        {"a conjoining syllable, as macOS names files", "\u1112\u1161\u11AB", 2},
        {"a compatibility Jamo", "ㅎ", 2},
        {"Han and kana", "漢字かな", 8},
        {"full-width Latin", "ＡＢ", 4},
        {"half-width kana", "ｶﾅ", 2},
        {"an accent apart from its letter", "e\u0301", 1},
        {"Latin with marks", "é", 1},
        {"emoji", "🎬", 2},
        {"a red heart, two columns at most", "❤\uFE0F", 2},
        {"joined emoji count apart", "👩\u200D🚀", 4},
        {"an ambiguous character", "…", 1},
        {"a supplementary ideograph", "𠀀", 2},
        {"the last syllable and what follows", "\uD7A3\u00A0", 3},
        {"broken bytes", "\xFF\xFE", 2},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.name);
      CHECK(display_width(c.text) == c.columns);
    }
  }

  TEST_CASE("nothing that moves the cursor is left") {
    CHECK(printable("눈.mp4") == "눈.mp4");
    CHECK(printable("a\x1b[2Jb\r\n") == "a\uFFFD[2Jb\uFFFD\uFFFD");
    CHECK(printable("a\xC2\x9B"
                    "b") == "a\uFFFDb");  // CSI of C1
    CHECK(printable("\u202Egpj.4pm") == "\uFFFDgpj.4pm");
    CHECK(printable("a\u2028b\u2066c") == "a\uFFFDb\uFFFDc");
    CHECK(printable("\xFFx") == "\uFFFDx");
  }

  TEST_CASE("a text is cut in the middle, between characters") {
    CHECK(shorten_middle("city.mp4", 8) == "city.mp4");
    CHECK(shorten_middle("abcdefghij.mp4", 11) == "abcd....mp4");
    CHECK(shorten_middle("가나다라마바사", 8) == "가...사");
    CHECK(shorten_middle("가나다라마바사", 10) == "가...바사");
    // The accent stays with its letter at both ends.
    CHECK(shorten_middle("e\u0301xxxxxe\u0301", 5) == "e\u0301...e\u0301");
    CHECK(shorten_middle("abcdef", 3) == "abc");
    CHECK(shorten_middle("가나", 1) == "");
    CHECK(shorten_middle("가나", 0) == "");
  }

  TEST_CASE("a path loses its first folders, then everything but its name") {
    const std::string path = "/archive/2024/day 1/clip.mp4";
    CHECK(shorten_path(path, 28) == path);
    CHECK(shorten_path(path, 27) == ".../2024/day 1/clip.mp4");
    CHECK(shorten_path(path, 22) == ".../day 1/clip.mp4");
    CHECK(shorten_path(path, 12) == ".../clip.mp4");
    CHECK(shorten_path(path, 11) == "clip.mp4");
    CHECK(shorten_path(path, 7) == "cl...p4");
    CHECK(shorten_path("aaaaaaaaaaaaaaaa/", 8) == "");
  }

  TEST_CASE("whatever is cut fits, and stays UTF-8") {
    std::string text;
    for (const char* part : {"a", "가", "e\u0301", "🎬", "/", "\u1112\u1161\u11AB", "\xFF"}) {
      text += part;
      text += text;
    }
    for (int columns = 0; columns <= display_width(text); ++columns) {
      CAPTURE(columns);
      for (const std::string& cut : {shorten_middle(text, columns), shorten_path(text, columns)}) {
        CHECK(display_width(cut) <= columns);
        CHECK(is_valid_utf8(cut));
      }
    }
  }
}

}  // namespace
}  // namespace caption
