#include "text/internal/prefix_tree.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace caption::text {
namespace {

using Found = std::vector<std::pair<std::size_t, TokenId>>;

Found prefixes_of(const PrefixTree& tree, std::string_view word) {
  Found found;
  tree.for_each_prefix(word, [&](std::size_t size, TokenId id) { found.emplace_back(size, id); });
  return found;
}

std::string draw_text(std::mt19937& random, std::string_view letters, std::size_t max_length) {
  std::string text(1 + random() % max_length, '\0');
  for (char& c : text) c = letters[random() % letters.size()];
  return text;
}

// Compares the tree with a look at every text, on words of the same letters.
void check_random_texts(std::string_view letters, std::size_t num_texts, std::size_t max_length) {
  CAPTURE(letters.size());
  std::mt19937 random(7);
  std::set<std::string> drawn;
  for (std::size_t i = 0; i < num_texts; ++i) drawn.insert(draw_text(random, letters, max_length));
  const std::vector<std::string> texts(drawn.begin(), drawn.end());
  std::vector<PrefixTree::Entry> entries;
  for (std::size_t i = texts.size(); i-- > 0;) {
    entries.push_back({.text = texts[i], .id = static_cast<TokenId>(i)});
  }
  const PrefixTree tree(std::move(entries));
  for (int i = 0; i < 500; ++i) {
    const std::string word = draw_text(random, letters, max_length + 2);
    Found expected;
    for (std::size_t size = 1; size <= word.size(); ++size) {
      for (std::size_t id = 0; id < texts.size(); ++id) {
        if (texts[id] == std::string_view(word).substr(0, size)) {
          expected.emplace_back(size, static_cast<TokenId>(id));
        }
      }
    }
    CHECK(prefixes_of(tree, word) == expected);
  }
}

}  // namespace

TEST_CASE("prefix tree: the texts that a word begins with, the shortest first") {
  const PrefixTree tree(
      {{.text = "ab", .id = 5}, {.text = "a", .id = 2}, {.text = "abcd", .id = 9}});
  CHECK(prefixes_of(tree, "abcde") == Found{{1, 2}, {2, 5}, {4, 9}});
  CHECK(prefixes_of(tree, "abc") == Found{{1, 2}, {2, 5}});
  CHECK(prefixes_of(tree, "b").empty());
  CHECK(prefixes_of(tree, "").empty());
  CHECK(prefixes_of(PrefixTree(), "a").empty());
}

TEST_CASE("prefix tree: random texts of few, of all and of far apart bytes, NUL among them") {
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes.push_back(static_cast<char>(byte));
  check_random_texts("ab", 200, 9);
  check_random_texts(std::string_view("\0\xFF", 2), 200, 9);
  check_random_texts(all_bytes, 1000, 3);
  check_random_texts("abcdefghijklmnop", 1000, 4);
}

TEST_CASE("prefix tree: tokens of Hangul alone take memory by their prefixes") {
  const auto syllable = [](unsigned number) {
    std::string text;
    append_utf8(text, 0xAC00 + number);
    return text;
  };
  std::vector<std::string> texts;
  std::set<std::string> prefixes;
  for (unsigned i = 0; i < 100; ++i) {
    for (unsigned k = 0; k < 100; ++k) texts.push_back(syllable(i * 111) + syllable(k * 111));
  }
  std::vector<PrefixTree::Entry> entries;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    entries.push_back({.text = texts[i], .id = static_cast<TokenId>(i)});
    for (std::size_t size = 0; size <= texts[i].size(); ++size) {
      prefixes.insert(texts[i].substr(0, size));
    }
  }
  const PrefixTree tree(std::move(entries));
  constexpr std::size_t kSlotBytes = 12;
  constexpr std::size_t kLeast = 2 * 256;  // slots at the ends
  CHECK(tree.size_bytes() <= (prefixes.size() * 3 / 2 + kLeast) * kSlotBytes);
  CHECK(prefixes_of(tree, texts[9999] + "x") == Found{{6, 9999}});
}

TEST_CASE("prefix tree: more slots than 100 MB are refused") {
  std::vector<std::string> texts;
  for (int i = 0; i < 5000; ++i) texts.push_back(std::to_string(i) + std::string(2000, 'x'));
  std::vector<PrefixTree::Entry> entries;
  for (const std::string& text : texts) entries.push_back({.text = text, .id = 0});
  CHECK_THROWS_WITH_AS(PrefixTree(std::move(entries)),
                       doctest::Contains("need more than 8388608 places"), Error);
}

}  // namespace caption::text
