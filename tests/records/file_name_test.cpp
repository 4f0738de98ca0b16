// Tests the conversion of file names, which are bytes, to UTF-8 and back.
#include "records/file_name.h"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>

#include "base/utf8.h"

namespace caption::records {
namespace {

TEST_SUITE("records/file_name") {
  TEST_CASE("names that are text stay as they are") {
    for (const std::string name :
         {"a.mp4", "서울 야경.mp4", "back\\slash", "\\x", "\\xg0", "\\xA0"}) {
      CAPTURE(name);
      CHECK(escape_file_name(name) == name);
    }
  }

  TEST_CASE("other bytes and control characters become escapes") {
    CHECK(escape_file_name("a\xff.mp4") == "a\\xff.mp4");
    CHECK(escape_file_name("two\nlines") == "two\\x0alines");
    CHECK(escape_file_name("\xea\xb0") == "\\xea\\xb0");
    CHECK(escape_file_name("\\xff") == "\\x5cxff");
  }

  TEST_CASE("every byte string comes back, and no two give one text") {
    std::mt19937 random(20);
    // A small alphabet makes escapes and texts that look like escapes frequent.
    const std::string letters = "\\x0af5c\xff\xea\xb0\x80\n";
    std::set<std::string> names;
    std::set<std::string> texts;
    for (int i = 0; i < 20000; ++i) {
      std::string name(random() % 9, ' ');
      for (char& c : name) c = letters[random() % letters.size()];
      const std::string text = escape_file_name(name);
      CAPTURE(text);
      CHECK(unescape_file_name(text) == name);
      CHECK(is_valid_utf8(text));
      names.insert(name);
      texts.insert(text);
    }
    CHECK(names.size() == texts.size());
  }
}

}  // namespace
}  // namespace caption::records
