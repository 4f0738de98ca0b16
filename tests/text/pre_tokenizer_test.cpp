// Regular expressions, splitting and normalisation, as Hugging Face's tokenizers do them.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/unicode_form.h"
#include "base/utf8.h"
#include "text/internal/normalizer.h"
#include "text/internal/pre_tokenizer.h"
#include "text/internal/regex.h"

namespace caption::text {
namespace {

constexpr std::int64_t kBudgetUs = 3600LL * 1'000'000;  // no test takes as long

// The words that a step makes of a text: "a|b".
std::string words_of(const std::vector<PreTokenizerStep>& steps, std::string_view text,
                     bool is_first = true) {
  const PreTokenizer pre_tokenizer(steps, "m");
  std::vector<Word> words = {{.text = text, .is_first = is_first}};
  std::vector<Word> other;
  RegexScratch scratch(kBudgetUs);
  TextArena arena(text.size());
  pre_tokenizer.split(&words, &other, &scratch, &arena);
  std::string out;
  for (const Word& word : words) {
    CHECK_FALSE(word.text.empty());
    if (!out.empty()) out += '|';
    out += word.text;
  }
  return out;
}

PreTokenizerStep split_step(const std::string& pattern, SplitBehavior behavior,
                            bool is_inverted = false) {
  PreTokenizerStep step;
  step.pattern = pattern;
  step.behavior = behavior;
  step.is_inverted = is_inverted;
  return step;
}

PreTokenizerStep metaspace(PrependScheme scheme, bool splits) {
  PreTokenizerStep step;
  step.kind = PreTokenizerStep::Kind::kMetaspace;
  step.mark = "_";
  step.prepend_scheme = scheme;
  step.splits = splits;
  return step;
}

bool matches(const char* pattern, std::string_view text) {
  RegexScratch scratch(kBudgetUs);
  const auto match = Regex(pattern, "m").find(text, 0, &scratch);
  return match && match->begin == 0 && match->end == text.size();
}

std::string form_of(std::string_view text, UnicodeForm form) {
  std::string storage;
  return std::string(to_unicode_form(text, form, &storage));
}

TEST_SUITE("text/pre_tokenizer") {
  TEST_CASE("each behaviour of Split does with matches what its name says") {
    using Behavior = SplitBehavior;
    const struct {
      Behavior behavior;
      bool is_inverted;
      const char* words;
    } kRows[] = {
        {Behavior::kIsolated, false, "the|-|final|-|-|countdown"},
        {Behavior::kRemoved, false, "the|final|countdown"},
        {Behavior::kMergedWithPrevious, false, "the-|final-|-|countdown"},
        {Behavior::kMergedWithNext, false, "the|-final|-|-countdown"},
        {Behavior::kContiguous, false, "the|-|final|--|countdown"},
        {Behavior::kRemoved, true, "-|-|-"},
        {Behavior::kContiguous, true, "the|-|final|--|countdown"},
    };
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.words));
      CHECK(words_of({split_step("-", row.behavior, row.is_inverted)}, "the-final--countdown") ==
            row.words);
    }
    CHECK(words_of({split_step("-", Behavior::kMergedWithNext)}, "--a-") == "-|-a|-");
    CHECK(words_of({split_step("-", Behavior::kMergedWithPrevious)}, "--a-") == "-|-|a-");
    CHECK(words_of({split_step("-", Behavior::kRemoved)}, "--").empty());
  }

  TEST_CASE("Metaspace writes spaces as marks and may begin with one") {
    CHECK(words_of({metaspace(PrependScheme::kAlways, true)}, "a b  c") == "_a|_b|_|_c");
    CHECK(words_of({metaspace(PrependScheme::kAlways, false)}, "a b") == "_a_b");
    CHECK(words_of({metaspace(PrependScheme::kAlways, true)}, " a") == "_a");
    CHECK(words_of({metaspace(PrependScheme::kFirst, false)}, "a", false) == "a");
    CHECK(words_of({metaspace(PrependScheme::kFirst, false)}, "a", true) == "_a");
    CHECK(words_of({metaspace(PrependScheme::kNever, true)}, "a b") == "a|_b");
    // Only the first of several words is the start of the text.
    CHECK(
        words_of({split_step("-", SplitBehavior::kRemoved), metaspace(PrependScheme::kFirst, true)},
                 "a-b") == "_a|b");
  }

  TEST_CASE("a space before each word that has none") {
    PreTokenizerStep step;
    step.kind = PreTokenizerStep::Kind::kPrefixSpace;
    CHECK(words_of({step}, "a") == " a");
    CHECK(words_of({step}, " a") == " a");
    CHECK(words_of({split_step(",", SplitBehavior::kIsolated), step}, "a,b") == " a| ,| b");
  }

  TEST_CASE("classes are those of the reference") {
    // White_Space has U+0085 and not U+180E or U+200B.
    for (const char* space : {" ", "\t", "\v", "\u0085", "\u00a0", "\u2028", "\u3000"}) {
      CAPTURE(json_quote(space));
      CHECK(matches("\\s", space));
      CHECK(matches("[\\s]", space));
      CHECK_FALSE(matches("\\S", space));
      CHECK_FALSE(matches("[\\S]", space));
      CHECK_FALSE(matches("[^\\s]", space));
    }
    for (const char* other : {"a", "\u180e", "\u200b", "\ufeff", "가", "\U0001F600"}) {
      CAPTURE(json_quote(other));
      CHECK_FALSE(matches("\\s", other));
      CHECK(matches("\\S", other));
      CHECK(matches("[\\S]", other));
      CHECK(matches("[^\\s]", other));
    }
    CHECK(matches("\\p{L}+", "aé가漢ー\u1100ǅ"));
    CHECK_FALSE(matches("\\p{L}", "\u0301"));
    CHECK(matches("\\P{L}", "\u0301"));
    CHECK(matches("\\p{^L}", "\u0301"));
    CHECK(matches("\\p{N}+", "1½Ⅷ٣²①"));
    CHECK(matches("(?i:'s)", "'ſ"));  // U+017F folds to s
    CHECK(matches("(?i:'S)", "'s"));
    CHECK(matches("\\p{Han}", "漢"));
    CHECK_FALSE(matches("\\p{Han}", "\u3001"));  // a script extension only
    CHECK(matches("\\v", "\x0b"));
    CHECK_FALSE(matches("\\v", "\n"));
    CHECK(matches("\\uac00", "가"));
    CHECK(matches(".", "가"));
    CHECK_FALSE(matches(".", "\n"));
    CHECK(matches(".", "\r"));
  }

  TEST_CASE("patterns that may mean something else to the reference are refused by name") {
    const struct {
      const char* pattern;
      const char* message;
    } kRows[] = {
        {"\\w+", "uses \\w"},
        {"\\h", "uses \\h"},
        {"a\\b", "uses \\b"},
        {"(?<x>a)", "a group of the kind"},
        {"(?i)a", "a group of the kind"},
        {"[a&&b]", "an intersection of classes"},
        {"[[:alpha:]]", "a class inside a class"},
        {"a{,2}", "a bare {"},
        {"a{2}+", "{...}+"},
        {"a{2}?", "{n}?"},
        {"(*ACCEPT)a", "uses (*"},
        {"a(*SKIP)b", "uses (*"},
        {"\\p{Alpha}", "\\p{Alpha}"},
        {"\\pL", "\\p without {}"},
        {"(a", "PCRE2 cannot compile"},
        {"a*", "may match the empty text"},
        {"a|", "may match the empty text"},
        {"(a)\\1", "uses \\1"},
        {"\\", "a \\ at its end"},
    };
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.pattern));
      CHECK_THROWS_WITH_AS(Regex(row.pattern, "m.json: x"), doctest::Contains(row.message), Error);
      CHECK_THROWS_WITH_AS(Regex(row.pattern, "m.json: x"), doctest::Contains("m.json: x"), Error);
    }
  }

  TEST_CASE("a search that would never end is an error") {
    RegexScratch scratch(kBudgetUs);
    const Regex regex("(?:a+)+b", "m");
    CHECK_THROWS_WITH_AS(regex.find(std::string(64, 'a') + "cb", 0, &scratch),
                         doctest::Contains("takes too long"), Error);
    // Each position needs more than the first steps and less than too many: the time counts.
    const Regex slow("a*a*a*b", "m");
    const std::string text = std::string(150, 'a') + "cab";
    const auto match = slow.find(text, 0, &scratch);
    REQUIRE(match.has_value());
    CHECK(match->begin == 151);
    CHECK(match->end == 153);
    RegexScratch spent(0);
    CHECK_THROWS_WITH_AS(slow.find(text, 0, &spent), doctest::Contains("used up their time"),
                         Error);
    const Regex often("a", "m");
    const auto search_all = [&](RegexScratch* with) {
      for (std::size_t at = 0; at < 1000; ++at) often.find(std::string(1000, 'a'), at, with);
    };
    CHECK_NOTHROW(search_all(&scratch));
    CHECK_THROWS_AS(search_all(&spent), Error);
  }

  TEST_CASE("a match is found wherever it begins") {
    RegexScratch scratch(kBudgetUs);
    const Regex regex("(?<=나)b+", "m");
    for (const std::size_t num_before : {0, 341, 342, 1023, 1024, 1025, 5000}) {
      CAPTURE(num_before);
      std::string text;
      for (std::size_t i = 0; i < num_before; ++i) text += "가";
      const std::size_t begin = text.size() + std::string_view("나").size();
      text += "나bb가";
      const auto match = regex.find(text, 0, &scratch);
      REQUIRE(match.has_value());
      CHECK(match->begin == begin);
      CHECK(match->end == begin + 2);
      CHECK_FALSE(regex.find(text, begin + 2, &scratch).has_value());
    }
  }

  TEST_CASE("an escaped text matches itself") {
    for (const char* text : {" ", ".", "[a]", "\\s", "(?i)", "가^$", "a{2}", "\t#"}) {
      CAPTURE(std::string(text));
      CHECK(matches(escape_regex(text).c_str(), text));
    }
  }

  TEST_CASE("the forms of Unicode") {
    const struct {
      const char* text;
      const char* nfc;
      const char* nfd;
      const char* nfkc;
    } kRows[] = {
        {"plain", "plain", "plain", "plain"},
        {"e\u0301", "é", "e\u0301", "é"},
        {"각", "각", "\u1100\u1161\u11a8", "각"},
        {"\u1100\u1161\u11a8", "각", "\u1100\u1161\u11a8", "각"},
        {"가\u11a8", "각", "\u1100\u1161\u11a8", "각"},
        {"가\u11a7", "가\u11a7", "\u1100\u1161\u11a7", "가\u11a7"},
        {"a\u0307\u0323b", "\u1ea1\u0307b", "a\u0323\u0307b", "\u1ea1\u0307b"},
        {"\u212b", "Å", "A\u030a", "Å"},
        {"ﬁ½", "ﬁ½", "ﬁ½", "fi1\u20442"},
        {"か\u3099 日本", "が 日本", "か\u3099 日本", "が 日本"},
        {"\u0344", "\u0308\u0301", "\u0308\u0301", "\u0308\u0301"},
        // U+32FF is of Unicode 12.1: unknown to the reference.
        {"\u32ff", "\u32ff", "\u32ff", "\u32ff"},
        {"\u32ffか\u3099", "\u32ffが", "\u32ffか\u3099", "\u32ffが"},
    };
    for (const auto& row : kRows) {
      CAPTURE(json_quote(row.text));
      CHECK(form_of(row.text, UnicodeForm::kNfc) == row.nfc);
      CHECK(form_of(row.text, UnicodeForm::kNfd) == row.nfd);
      CHECK(form_of(row.text, UnicodeForm::kNfkc) == row.nfkc);
    }
    // Many marks of falling classes, which a bubble sort would take minutes for.
    std::string marks = "a";
    for (int i = 0; i < 100'000; ++i) marks += "\u0301\u0323";
    const std::string sorted = form_of(marks, UnicodeForm::kNfc);
    CHECK(sorted.size() > 300'000);
    CHECK(sorted.starts_with("\u1ea1\u0323"));
  }

  TEST_CASE("the steps of a normalizer are applied in order") {
    using Kind = NormalizerStep::Kind;
    const auto step = [](Kind kind, const char* pattern, const char* content) {
      NormalizerStep made;
      made.kind = kind;
      made.pattern = pattern;
      made.content = content;
      made.strips_left = made.strips_right = true;
      return made;
    };
    TextArena arena(100);
    const Normalizer lower({step(Kind::kStrip, "", ""), step(Kind::kLowercase, "", "")});
    const NormalizedText stripped = lower.normalize("\u3000 A İÉ\n", &arena);
    CHECK(stripped.text == "a i\u0307é");
    CHECK_FALSE(stripped.keeps_start);
    CHECK(lower.normalize("A ", &arena).keeps_start);
    const Normalizer prepend({step(Kind::kPrepend, "", "_"), step(Kind::kReplace, " ", "_")});
    CHECK(prepend.normalize("a b ") == "_a_b_");
    CHECK(prepend.normalize("").empty());
    CHECK(prepend.normalize(" a", &arena).keeps_start);
    const Normalizer replace({step(Kind::kReplace, "ab", "c")});
    CHECK(replace.normalize("abab xab") == "cc xc");
    CHECK_FALSE(replace.normalize("ab", &arena).keeps_start);
    CHECK(replace.normalize("b", &arena).keeps_start);
  }

  TEST_CASE("steps that grow a text without bound are refused by name") {
    const auto replace = [](std::string content) {
      return NormalizerStep{
          .kind = NormalizerStep::Kind::kReplace, .pattern = "a", .content = std::move(content)};
    };
    const auto message_of = [](const auto& work) -> std::string {
      try {
        work();
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kTooLarge);
        return error.what();
      }
      return "no error";
    };
    const Normalizer doublings(std::vector<NormalizerStep>(30, replace("aa")));
    CHECK(message_of([&] { doublings.normalize("a"); }) ==
          "the tokenizer's normalizer and pre_tokenizer make a text of 1 bytes too long, at the "
          "step Replace of \"a\"");
    // As long as the text is, its growth by a factor is allowed.
    const Normalizer longer({replace(std::string(32, 'x'))});
    CHECK(longer.normalize(std::string(1 << 20, 'a')).size() == 32u << 20);
    // Two marks in turn double the number of words.
    std::vector<PreTokenizerStep> marks;
    for (int i = 0; i < 60; ++i) {
      marks.push_back(metaspace(PrependScheme::kAlways, true));
      marks.back().mark = i % 2 == 0 ? "x" : "y";
    }
    CHECK(message_of([&] { words_of(marks, "a"); }).find("at the step Metaspace") !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace caption::text
