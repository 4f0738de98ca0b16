// Texts in NFD and in NFC compose to the same bytes.
#include "base/unicode_form.h"

#include <doctest/doctest.h>

namespace caption {
namespace {

TEST_SUITE("base/unicode_form") {
  TEST_CASE("letters and marks become the characters they make up") {
    struct Case {
      const char* text;
      const char* composed;
    };
    constexpr Case kCases[] = {
        {"", ""},
        {"a.mp4", "a.mp4"},
        {"눈길", "눈길"},
        {"\u1102\u116e\u11ab\u1100\u1175\u11af", "눈길"},
        {"\u1100\u1161x", "가x"},
        {"cafe\u0301", "caf\u00e9"},
        {"가\u11a7", "가\u11a7"},  // no trailing consonant, though utf8proc 2.8 composes it
        {"\u1100\u1161\u11a7x", "가\u11a7x"},
        {"\xff"
         "a",
         "\uFFFD"
         "a"},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.text);
      CHECK(to_nfc(c.text) == c.composed);
      CHECK(is_nfc(c.composed));
    }
    CHECK_FALSE(is_nfc("cafe\u0301"));
  }
}

}  // namespace
}  // namespace caption
