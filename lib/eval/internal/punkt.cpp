#include "eval/internal/punkt.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "eval/internal/unicode.h"

namespace caption::eval {
namespace {

using Text = std::u32string;
using TextView = std::u32string_view;

// The abbreviations of NLTK's English Punkt model (lower case, without the final period),
// ascending.
constexpr std::array<TextView, 155> kAbbreviations = {
    U"a.a",   U"a.c",     U"a.d",  U"a.g",    U"a.h",  U"a.m",   U"a.m.e",   U"a.s",   U"a.t",
    U"adm",   U"ala",     U"ariz", U"aug",    U"ave",  U"b.f",   U"b.v",     U"bros",  U"c",
    U"c.i.t", U"c.o.m.b", U"c.v",  U"calif",  U"chg",  U"cie",   U"co",      U"col",   U"colo",
    U"conn",  U"corp",    U"cos",  U"ct",     U"d",    U"d.c",   U"d.h",     U"d.w",   U"dec",
    U"dr",    U"e",       U"e.f",  U"e.h",    U"e.l",  U"e.m",   U"f",       U"f.g",   U"f.j",
    U"feb",   U"fla",     U"fri",  U"ft",     U"g",    U"g.d",   U"g.f",     U"g.k",   U"ga",
    U"gen",   U"h",       U"h.c",  U"h.f",    U"h.m",  U"i.m.s", U"ill",     U"inc",   U"j.b",
    U"j.c",   U"j.j",     U"j.k",  U"j.p",    U"j.r",  U"jan",   U"jr",      U"k",     U"kan",
    U"ky",    U"l",       U"l.a",  U"l.f",    U"l.p",  U"lt",    U"ltd",     U"m",     U"m.b.a",
    U"m.d.c", U"m.j",     U"maj",  U"messrs", U"mg",   U"mich",  U"minn",    U"mr",    U"mrs",
    U"ms",    U"n",       U"n.c",  U"n.d",    U"n.h",  U"n.j",   U"n.m",     U"n.v",   U"n.y",
    U"nev",   U"nov",     U"oct",  U"ok",     U"okla", U"ore",   U"p",       U"p.a.m", U"p.m",
    U"pa",    U"ph.d",    U"prof", U"r",      U"r.a",  U"r.h",   U"r.i",     U"r.j",   U"r.k",
    U"r.t",   U"rep",     U"reps", U"s",      U"s.a",  U"s.a.y", U"s.c",     U"s.g",   U"s.p.a",
    U"s.s",   U"sen",     U"sep",  U"sept",   U"sr",   U"st",    U"sw",      U"t",     U"t.j",
    U"tenn",  U"tues",    U"u.k",  U"u.n",    U"u.s",  U"u.s.a", U"u.s.s.r", U"v",     U"va",
    U"vs",    U"vt",      U"w",    U"w.c",    U"w.r",  U"w.va",  U"w.w",     U"wash",  U"wed",
    U"wis",   U"yr"};

// The words that the same model takes for the beginning of a sentence when they follow an
// abbreviation or an ellipsis and are capitalised, in ascending order.
constexpr std::array<TextView, 39> kSentenceStarters = {
    U"according", U"although",     U"among",       U"both",   U"but",       U"despite",
    U"even",      U"he",           U"however",     U"i",      U"if",        U"in",
    U"indeed",    U"instead",      U"it",          U"many",   U"meanwhile", U"moreover",
    U"most",      U"nevertheless", U"nonetheless", U"nor",    U"sales",     U"separately",
    U"similarly", U"since",        U"so",          U"some",   U"the",       U"there",
    U"these",     U"they",         U"this",        U"though", U"thus",      U"under",
    U"when",      U"while",        U"yet"};

// Characters that end a word, even without a space.
constexpr TextView kNonWord = U")\";}]*:@'({[!?\u2018\u2019\u201C\u201D\u00AB\u00BB";

bool is_abbreviation(TextView word) {
  const std::size_t hyphen = word.rfind(U'-');
  const TextView tail = hyphen == TextView::npos ? word : word.substr(hyphen + 1);
  const auto known = [](TextView text) {
    return std::binary_search(kAbbreviations.begin(), kAbbreviations.end(), text);
  };
  return known(word) || known(tail);
}

bool is_number(TextView word) {
  std::size_t digits = 0;
  for (const char32_t c : word) {
    if (is_digit(c)) {
      ++digits;
    } else if (!is_one_of(c, U".,-")) {
      return false;
    }
  }
  return digits > 0;
}

// Whether a capitalised word of kSentenceStarters begins at `begin`.
bool is_sentence_starter(TextView text, std::size_t begin) {
  if (!is_upper(text[begin])) return false;
  std::size_t end = begin;
  while (end < text.size() && !is_space(text[end]) && text[end] != U',' &&
         !is_one_of(text[end], kNonWord)) {
    ++end;
  }
  if (text[end - 1] == U'.') --end;
  const Text word = to_lower(Text(text.substr(begin, end - begin)));
  return std::binary_search(kSentenceStarters.begin(), kSentenceStarters.end(), TextView(word));
}

// The start of the word that ends before `end`. Punkt splits words at spaces, at characters of
// kNonWord (of which those of kInitial may begin a word) and at "--"; no word begins with a
// character of kNotInitial.
std::size_t word_begin(TextView text, std::size_t end) {
  constexpr TextView kInitial = U"'!?\u2018\u2019\u201C\u201D\u00AB\u00BB";
  constexpr TextView kNotInitial = U"`&#-,";
  std::size_t begin = end;
  while (begin > 0 && !is_space(text[begin - 1]) && !is_one_of(text[begin - 1], kNonWord)) --begin;
  const std::size_t dashes = text.substr(begin, end - begin).rfind(U"--");
  if (dashes != TextView::npos) begin += dashes + 2;
  while (begin < end && is_one_of(text[begin], kNotInitial)) ++begin;
  if (begin > 0 && begin < end && is_one_of(text[begin - 1], kInitial)) --begin;
  return begin;
}

// Whether the period at `end` closes a sentence; `next` is the position of the first non-space
// character after it.
bool period_ends_sentence(TextView text, std::size_t end, std::size_t next) {
  const std::size_t begin = word_begin(text, end);
  const Text word = to_lower(Text(text.substr(begin, end - begin)));  // without its period
  if (word.empty()) return true;
  const bool is_before_dots = text.substr(next, 2) == U"..";
  const bool is_before_punctuation = is_one_of(text[next], U";:,.!?") && !is_before_dots;
  const bool is_initial = word.size() == 1 && is_word_of_regex(word[0]) && !is_digit(word[0]);
  const bool is_ellipsis = word.back() == U'.';
  if (is_ellipsis || is_abbreviation(word)) {
    return !is_initial && is_sentence_starter(text, next);
  }
  if (is_initial) {
    if (is_upper(text[next])) return is_sentence_starter(text, next);
    return !is_before_punctuation && !is_lower(text[next]);
  }
  if (is_number(word)) return !is_before_punctuation && !is_lower(text[next]);
  return true;
}

// Whether a sentence ends inside the text from `begin` to the next space, before its last word.
// NLTK looks for an end of a sentence in the words on both sides of a period at once, so that such
// an end makes one of a period before it, though that is an abbreviation's: "Mr. 김이다.” 그리고".
bool has_end_before_space(TextView text, std::size_t begin) {
  for (std::size_t i = begin; i + 1 < text.size() && !is_space(text[i + 1]); ++i) {
    if (is_one_of(text[i], U"?!")) return true;
    const bool ends_word = text[i] == U'.' && is_one_of(text[i + 1], kNonWord);
    if (ends_word && period_ends_sentence(text, i, i + 1)) return true;
  }
  return false;
}

// Number of closing quotes and brackets at the start of `rest` that belong to the preceding
// sentence.
std::size_t closing_prefix(TextView rest) {
  constexpr TextView kClosing = U"\"')]}\u2018\u2019\u201C\u201D\u00AB\u00BB";
  std::size_t n = 0;
  while (n < rest.size() && is_one_of(rest[n], kClosing)) ++n;
  if (n == 0) return 0;
  const bool is_closed = n == rest.size() || is_space(rest[n]) || rest.substr(n, 2) == U"--";
  return is_closed ? n : 0;
}

// The positions of ".", "?" and "!" that end sentences. Where several have no space between them,
// only the last one can, and it does when any of them would: "e.g.?" is one end.
std::vector<std::size_t> sentence_ends(TextView text) {
  constexpr TextView kAsciiSpaces = U" \t\n\r\v\f";
  std::vector<std::size_t> ends;
  std::size_t last = TextView::npos;  // the latest candidate
  bool is_end = false;                // whether its run ends a sentence
  bool has_space = false;             // whether a space follows `last`
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    has_space = has_space || is_one_of(text[i], kAsciiSpaces);
    if (!is_one_of(text[i], U".?!")) continue;
    std::size_t next = i + 1;
    while (next < text.size() && is_space(text[next])) ++next;
    const bool is_candidate = next > i + 1 || is_one_of(text[i + 1], kNonWord);
    if (!is_candidate || next == text.size()) continue;
    if (has_space && is_end) ends.push_back(last);
    if (has_space) is_end = false;
    is_end = is_end || text[i] != U'.' || period_ends_sentence(text, i, next) ||
             (next > i + 1 && has_end_before_space(text, next));
    last = i;
    has_space = false;
  }
  if (is_end) ends.push_back(last);
  return ends;
}

}  // namespace

std::vector<std::u32string_view> punkt_sentences(std::u32string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  std::vector<TextView> found;
  std::size_t begin = 0;
  for (const std::size_t mark : sentence_ends(text)) {
    std::size_t next = mark + 1;
    while (next < text.size() && is_space(text[next])) ++next;
    const std::size_t closing = closing_prefix(text.substr(next));
    const std::size_t end = closing == 0 ? mark + 1 : next + closing;
    if (end <= begin) continue;
    found.push_back(text.substr(begin, end - begin));
    begin = closing == 0 ? next : end;
    while (begin < text.size() && is_space(text[begin])) ++begin;
  }
  if (begin < text.size()) found.push_back(text.substr(begin));
  return found;
}

}  // namespace caption::eval
