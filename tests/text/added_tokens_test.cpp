#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "text/internal/added_tokens.h"

namespace caption::text {
namespace {

AddedTokenMatcher matcher_of(const std::vector<AddedToken>& tokens) {
  AddedTokenMatcher matcher;
  for (const AddedToken& token : tokens) matcher.add(token.content, token);
  return matcher;
}

// The segments in order, tokens with their ids: "a|<x>=1|b".
std::string shown(const AddedTokenMatcher& matcher, std::string_view text) {
  std::string out;
  for (const Segment& segment : matcher.split(text)) {
    if (!out.empty()) out += '|';
    out += segment.text;
    if (segment.token != nullptr) out.append("=").append(std::to_string(segment.token->id));
  }
  return out;
}

TEST_SUITE("text/added_tokens") {
  TEST_CASE("the leftmost token counts, and of those the longest") {
    const auto matcher = matcher_of({{.content = "<a>", .id = 1},
                                     {.content = "<a><b>", .id = 2},
                                     {.content = "b><c", .id = 3},
                                     {.content = "c", .id = 4}});
    const struct {
      const char* text;
      const char* segments;
    } kRows[] = {
        {"", ""},
        {"x", "x"},
        {"<a>", "<a>=1"},
        {"x<a>y", "x|<a>=1|y"},
        {"<a><b>", "<a><b>=2"},
        {"<a><b", "<a>=1|<b"},
        {"<b><c>", "<|b><c=3|>"},
        {"<a><b><c>", "<a><b>=2|<|c=4|>"},
        {"<a<a>", "<a|<a>=1"},
    };
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.text));
      CHECK(shown(matcher, row.text) == row.segments);
    }
  }

  TEST_CASE("whitespace beside a stripping token belongs to it") {
    const auto matcher = matcher_of({{.content = "<l>", .id = 1, .strips_left = true},
                                     {.content = "<r>", .id = 2, .strips_right = true}});
    CHECK(shown(matcher, "a \t<l> b") == "a| \t<l>=1| b");
    CHECK(shown(matcher, "a <r>\u3000\n b") == "a |<r>\u3000\n =2|b");
    CHECK(shown(matcher, "<r>  <l>") == "<r>  =2|<l>=1");
    CHECK(shown(matcher, "  <l>") == "  <l>=1");
  }

  TEST_CASE("a single-word token stands between characters that are no word characters") {
    const auto matcher = matcher_of({{.content = "on", .id = 1, .is_single_word = true}});
    for (const char* alone : {"on", " on ", "(on)", "-on-", "on\u3000", "\u201con\u201d", "😀on"}) {
      CAPTURE(std::string(alone));
      CHECK(shown(matcher, alone).find("on=1") != std::string::npos);
    }
    for (const char* inside : {"son", "only", "on_", "on1", "가on", "éon", "onの"}) {
      CAPTURE(std::string(inside));
      CHECK(shown(matcher, inside) == inside);
    }
  }

  TEST_CASE("an empty token is ignored and of two equal ones the first counts") {
    const auto matcher = matcher_of(
        {{.content = "", .id = 1}, {.content = "x", .id = 2}, {.content = "x", .id = 3}});
    CHECK(shown(matcher, "axb") == "a|x=2|b");
  }
}

}  // namespace
}  // namespace caption::text
