#include <doctest/doctest.h>

#include <random>
#include <string>

#include "base/utf8.h"

namespace caption {
namespace {

TEST_SUITE("base/utf8") {
  TEST_CASE("a byte order mark is removed once, and only at the beginning") {
    CHECK(without_byte_order_mark("\xEF\xBB\xBF\xEF\xBB\xBF"
                                  "a") ==
          "\xEF\xBB\xBF"
          "a");
    CHECK(without_byte_order_mark("a\xEF\xBB\xBF") == "a\xEF\xBB\xBF");
    CHECK(without_byte_order_mark("\xEF\xBB") == "\xEF\xBB");
    CHECK(without_byte_order_mark("") == "");
  }

  TEST_CASE("each maximal invalid subpart becomes one replacement character") {
    // Same results as Python's bytes.decode("utf-8", "replace").
    const struct {
      std::string bytes;
      const char* text;
    } kRows[] = {
        {"", ""},
        {"plain", "plain"},
        {"가😀é", "가😀é"},
        {std::string("a\0b", 3), nullptr},
        {"\x80", "\uFFFD"},
        {"\xc0\x80", "\uFFFD\uFFFD"},                      // overlong
        {"\xe0\x80\x80", "\uFFFD\uFFFD\uFFFD"},            // overlong
        {"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},            // a surrogate
        {"\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},  // beyond U+10FFFF
        {"\xf5\xff", "\uFFFD\uFFFD"},
        {"\xea\xb0", "\uFFFD"},  // cut short
        {"\xf0\x9f\x98", "\uFFFD"},
        {"\xea\xb0"
         "a",
         "\uFFFDa"},
        {"\xf0\x9f\xea\xb0\x80", "\uFFFD가"},
        {"\xc3\xc3\xa9", "\uFFFDé"},
    };
    for (const auto& row : kRows) {
      const std::string wanted = row.text == nullptr ? row.bytes : row.text;
      CAPTURE(wanted);
      CHECK(make_valid_utf8(row.bytes) == wanted);
      CHECK(is_valid_utf8(row.bytes) == (row.bytes == wanted));
    }
  }

  TEST_CASE("the limits of every length encode and decode") {
    for (const char32_t c :
         {0x0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xD7FFu, 0xE000u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
      const std::u32string text(1, c);
      CHECK(is_valid_utf8(encode_utf8(text)));
      CHECK(decode_utf8_lossy(encode_utf8(text)) == text);
    }
  }

  TEST_CASE("a prefix is complete when nothing that follows can change its last character") {
    const struct {
      std::string bytes;
      std::size_t complete;
    } kRows[] = {
        {"", 0},
        {"a", 1},
        {"\xea", 0},
        {"\xea\xb0", 0},
        {"\xea\xb0\x80", 3},
        {"a\xf0\x9f\x98", 1},
        {"\xf0\x9f\x98\x80", 4},
        {"\x80\x80", 2},
        {"\xff", 1},
        {"\xc0", 1},
        {"\xed\xa0", 2},
        {"a\xed", 1},
        {"\xf4\x90", 2},
        {"\xf4\x8f", 0},
        {"\x80\x80\x80\x80", 4},
    };
    for (const auto& row : kRows) {
      CAPTURE(make_valid_utf8(row.bytes));
      CAPTURE(row.complete);
      CHECK(complete_utf8_prefix(row.bytes) == row.complete);
    }
  }

  TEST_CASE("decoding by complete prefixes is decoding the whole") {
    const std::string alphabet = "a\x80\xb0\xbf\xc3\xea\xed\xa0\xf0\x9f\xf4\x90\xff";
    std::mt19937 rng(11);
    for (int round = 0; round < 20000; ++round) {
      std::string bytes;
      for (std::size_t i = rng() % 10; i > 0; --i) bytes += alphabet[rng() % alphabet.size()];
      std::string pending;
      std::string text;
      for (const char byte : bytes) {
        pending += byte;
        const std::size_t complete = complete_utf8_prefix(pending);
        CHECK(pending.size() - complete <= 3);
        text += make_valid_utf8(pending.substr(0, complete));
        pending.erase(0, complete);
      }
      CHECK(text + make_valid_utf8(pending) == make_valid_utf8(bytes));
    }
  }
}

}  // namespace
}  // namespace caption
