// eval/nltk_words.cpp: nltk.word_tokenize: Punkt's sentence boundaries, then the rules of
// NLTKWordTokenizer on each sentence.
//
// Source: NLTK 3.10.4, nltk/tokenize/destructive.py and punkt.py (Kiss and Strunk 2006). The rules
// are regular expressions there; here each is a scan, because std::regex has no Unicode classes and
// recurses once per character. The order of the rules is part of the definition.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "eval/internal/unicode.h"
#include "eval/tokenise.h"

namespace caption::eval {
namespace {

using Text = std::u32string;
using TextView = std::u32string_view;

bool is_one_of(char32_t c, TextView set) { return set.find(c) != TextView::npos; }

// --- Punkt ---------------------------------------------------------------------------------------

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
    is_end = is_end || text[i] != U'.' || period_ends_sentence(text, i, next);
    last = i;
    has_space = false;
  }
  if (is_end) ends.push_back(last);
  return ends;
}

std::vector<TextView> sentences(TextView text) {
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

// --- NLTKWordTokenizer ---------------------------------------------------------------------------

// Puts a space before and after every character of `set`.
Text pad_each(TextView text, TextView set) {
  Text out;
  for (const char32_t c : text) {
    if (is_one_of(c, set)) {
      out.append({U' ', c, U' '});
    } else {
      out.push_back(c);
    }
  }
  return out;
}

// Puts a space before and after every run of at least `min_length` characters `c`.
Text pad_runs(TextView text, char32_t c, std::size_t min_length) {
  Text out;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && text[end] == c) ++end;
    if (end - i >= min_length) {
      out.append(U" ").append(text.substr(i, end - i)).append(U" ");
    } else {
      out.append(text.substr(i, std::max<std::size_t>(end - i, 1)));
    }
    i = std::max(end, i + 1);
  }
  return out;
}

Text replace_all(TextView text, TextView from, TextView to) {
  Text out;
  for (std::size_t i = 0; i < text.size();) {
    if (text.substr(i, from.size()) == from) {
      out.append(to);
      i += from.size();
    } else {
      out.push_back(text[i++]);
    }
  }
  return out;
}

// ([ ([{<])("|'') -> "\1 `` "
Text open_quotes(TextView text) {
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out.push_back(text[i]);
    if (!is_one_of(text[i], U" ([{<")) continue;
    const std::size_t quote_length = text.substr(i + 1, 1) == U"\""   ? 1
                                     : text.substr(i + 1, 2) == U"''" ? 2
                                                                      : 0;
    if (quote_length == 0) continue;
    out.append(U" `` ");
    i += quote_length;
  }
  return out;
}

// Whether the whole word `word` is at position `i` of `text`, ignoring case.
bool has_word_at(TextView text, std::size_t i, TextView word) {
  if (text.size() < i + word.size()) return false;
  for (std::size_t k = 0; k < word.size(); ++k) {
    if (to_lower(text[i + k]) != word[k]) return false;
  }
  return i + word.size() == text.size() || !is_word(text[i + word.size()]);
}

// Puts a space after an apostrophe that begins a word, unless it begins a clitic ('s, 're, ...).
Text split_opening_apostrophes(TextView text) {
  constexpr std::array<TextView, 8> kClitics = {U"re", U"ve", U"ll", U"m", U"t", U"s", U"d", U"n"};
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out.push_back(text[i]);
    if (text[i] != U'\'' || (i > 0 && is_word_of_regex(text[i - 1]))) continue;
    if (i + 1 == text.size() || !is_word_of_regex(text[i + 1])) continue;
    const bool is_clitic = std::any_of(kClitics.begin(), kClitics.end(), [&](TextView clitic) {
      return has_word_at(text, i + 1, clitic);
    });
    if (!is_clitic) out.push_back(U' ');
  }
  return out;
}

// ([^.])(\.)(closing*)\s*$ -> the period is separated; `gap` is put between it and the closing
// characters.
Text split_final_period(TextView text, TextView closing_set, TextView gap) {
  const std::size_t period = text.rfind(U'.');
  if (period == TextView::npos || period == 0 || text[period - 1] == U'.') return Text(text);
  std::size_t end = period + 1;
  while (end < text.size() && is_one_of(text[end], closing_set)) ++end;
  const TextView closing = text.substr(period + 1, end - period - 1);
  if (!std::all_of(text.begin() + static_cast<std::ptrdiff_t>(end), text.end(), is_space)) {
    return Text(text);
  }
  Text out(text.substr(0, period));
  return out.append(U" .").append(gap).append(closing).append(U" ");
}

// ([:,])([^\d]) -> " \1 \2", then ([:,])$ -> " \1 "
Text split_colons_and_commas(TextView text) {
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_last = i + 1 == text.size();
    if (!is_one_of(text[i], U":,") || (!is_last && is_digit(text[i + 1]))) {
      out.push_back(text[i]);
      continue;
    }
    out.append({U' ', text[i], U' '});
    if (!is_last) out.push_back(text[++i]);
  }
  if (!out.empty() && is_one_of(out.back(), U":,")) {  // the second of two consecutive ones
    const char32_t last = out.back();
    out.pop_back();
    out.append({U' ', last, U' '});
  }
  return out;
}

// ([^'])'  followed by a space -> "\1 ' "
Text split_trailing_apostrophes(TextView text) {
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out.push_back(text[i]);
    if (text[i] != U'\'' && text.substr(i + 1, 2) == U"' ") {
      out.append(U" ' ");
      i += 2;
    }
  }
  return out;
}

Text collapse_spaces(TextView text) {
  Text out;
  for (const char32_t c : text) {
    if (!is_space(c)) {
      out.push_back(c);
    } else if (out.empty() || out.back() != U' ') {
      out.push_back(U' ');
    }
  }
  return out;
}

// ([^' ])(clitic) followed by a space -> "\1 clitic "
template <std::size_t kCount>
Text split_clitics(TextView text, const std::array<TextView, kCount>& clitics) {
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out.push_back(text[i]);
    if (is_one_of(text[i], U"' ")) continue;
    for (const TextView clitic : clitics) {
      const std::size_t end = i + 1 + clitic.size();
      if (text.substr(i + 1, clitic.size()) != clitic || text.substr(end, 1) != U" ") continue;
      out.append(U" ").append(clitic).append(U" ");
      i = end;
      break;
    }
  }
  return out;
}

struct Contraction {
  TextView whole;
  std::size_t split_at;
  // Whether a space must be there; elsewhere a word boundary.
  bool needs_space_before = false;
  bool needs_space_after = false;
};

constexpr std::array<Contraction, 10> kContractions = {
    {{U"cannot", 3},
     {U"d'ye", 1},
     {U"gimme", 3},
     {U"gonna", 3},
     {U"gotta", 3},
     {U"lemme", 3},
     {U"more'n", 4},
     {.whole = U"wanna", .split_at = 3, .needs_space_after = true},
     {.whole = U"'tis", .split_at = 2, .needs_space_before = true},
     {.whole = U"'twas", .split_at = 2, .needs_space_before = true}}};

// Whether the contraction is at position `i` of `text`, of which `done` is what the contractions
// before it have become.
bool is_at(const Contraction& contraction, TextView text, std::size_t i, TextView done) {
  const bool starts_here =
      contraction.needs_space_before ? done.ends_with(U' ') : i == 0 || !is_word(text[i - 1]);
  const std::size_t end = i + contraction.whole.size();
  const bool ends_there =
      !contraction.needs_space_after || (end < text.size() && is_space(text[end]));
  return starts_here && ends_there && has_word_at(text, i, contraction.whole);
}

Text split_contractions(TextView text) {
  Text out;
  for (std::size_t i = 0; i < text.size();) {
    const auto* const found =
        std::find_if(kContractions.begin(), kContractions.end(),
                     [&](const Contraction& one) { return is_at(one, text, i, out); });
    if (found == kContractions.end()) {
      out.push_back(text[i++]);
      continue;
    }
    out.append(U" ").append(text.substr(i, found->split_at)).append(U" ");
    out.append(text.substr(i + found->split_at, found->whole.size() - found->split_at));
    out.append(U" ");
    i += found->whole.size();
  }
  return out;
}

Text open_punctuation(TextView sentence) {
  // Opening quotes.
  Text text = pad_runs(pad_each(sentence, U"\u00AB\u201C\u2018\u201E"), U'`', 1);
  if (!text.empty() && text[0] == U'"') text.replace(0, 1, U"``");
  text = open_quotes(replace_all(text, U"``", U" `` "));
  text = split_opening_apostrophes(text);
  // Punctuation.
  text = split_final_period(text, U"])}>\"'\u00BB\u201D\u2019 ", U" ");
  text = pad_runs(split_colons_and_commas(text), U'.', 2);
  text = pad_each(pad_each(text, U";@#$%&"), U"\u2012\u2013\u2014\u2015");
  text = split_final_period(text, U"])}>\"'", U"");
  return pad_each(split_trailing_apostrophes(pad_each(text, U"?!")), U"*");
}

Text split_words(TextView sentence) {
  constexpr std::array<TextView, 7> kShortClitics = {U"'s", U"'S", U"'m", U"'M",
                                                     U"'d", U"'D", U"'"};
  constexpr std::array<TextView, 8> kLongClitics = {U"'ll", U"'LL", U"'re", U"'RE",
                                                    U"'ve", U"'VE", U"n't", U"N'T"};
  Text text = pad_each(open_punctuation(sentence), U"][(){}<>");
  text = replace_all(text, U"--", U" -- ");
  text.insert(text.begin(), U' ');
  text.push_back(U' ');
  // Closing quotes.
  text = pad_each(text, U"\u00BB\u201D\u2019");
  text = replace_all(replace_all(text, U"''", U" '' "), U"\"", U" '' ");
  text = split_clitics(collapse_spaces(text), kShortClitics);
  return split_contractions(split_clitics(text, kLongClitics));
}

}  // namespace

Tokens nltk_word_tokens(std::string_view text) {
  Tokens tokens;
  const Text chars = decode_utf8_lossy(text);
  for (const TextView sentence : sentences(chars)) {
    const Text words = split_words(sentence);
    for (std::size_t i = 0; i < words.size();) {
      std::size_t end = i;
      while (end < words.size() && !is_space(words[end])) ++end;
      if (end > i) tokens.push_back(encode_utf8(to_lower_full(TextView(words).substr(i, end - i))));
      i = end + 1;
    }
  }
  return tokens;
}

}  // namespace caption::eval
