// nltk.word_tokenize: Punkt's sentence ends, then the rules of NLTKWordTokenizer on each sentence.
//
// Source: nltk 3.10.4, nltk/tokenize/destructive.py and punkt.py (Kiss and Strunk 2006). The rules
// are regular expressions there; here each is a scan, because std::regex knows no Unicode classes
// and recurses once per character. The order of the rules is part of the definition.
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

// Words whose final period ends no sentence: the English ones a caption may hold.
constexpr std::array<TextView, 40> kAbbreviations = {
    U"a.m",  U"adm",   U"aug", U"ave",  U"bros", U"co",  U"col", U"corp", U"dec", U"dr",
    U"e.g",  U"feb",   U"ft",  U"gen",  U"i.e",  U"inc", U"jan", U"jr",   U"l.a", U"lt",
    U"ltd",  U"m.b.a", U"maj", U"mr",   U"mrs",  U"ms",  U"n.y", U"nov",  U"oct", U"p.m",
    U"ph.d", U"prof",  U"sen", U"sept", U"sr",   U"st",  U"u.k", U"u.n",  U"u.s", U"vs"};

constexpr TextView kNonWord = U")\";}]*:@'({[!?";  // ends a word inside a run without spaces

bool is_abbreviation(TextView word) {
  const std::size_t hyphen = word.rfind(U'-');
  const TextView tail = hyphen == TextView::npos ? word : word.substr(hyphen + 1);
  const auto known = [](TextView text) {
    return std::find(kAbbreviations.begin(), kAbbreviations.end(), text) != kAbbreviations.end();
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

// Whether the period at `end` closes a sentence, `next` being the first character after it and
// after spaces.
bool period_ends_sentence(TextView text, std::size_t sentence_begin, std::size_t end,
                          char32_t next) {
  std::size_t begin = end;
  while (begin > sentence_begin && !is_space(text[begin - 1]) &&
         !is_one_of(text[begin - 1], kNonWord)) {
    --begin;
  }
  const Text word = to_lower(Text(text.substr(begin, end - begin)));  // without its period
  if (word.empty()) return true;
  if (word.back() == U'.') return false;  // an ellipsis
  if (is_abbreviation(word)) return false;
  const bool is_before_punctuation = is_one_of(next, U";:,.!?");
  if (word.size() == 1 && is_word(word[0]) && !is_digit(word[0])) {
    return !is_before_punctuation && !is_lower(next) && !is_upper(next);
  }
  if (is_number(word)) return !is_before_punctuation && !is_lower(next);
  return true;
}

// Length of closing quotes and brackets at the head of `rest` that belong to the sentence before.
std::size_t closing_prefix(TextView rest) {
  std::size_t n = 0;
  while (n < rest.size() && is_one_of(rest[n], U"\"')]}")) ++n;
  if (n == 0) return 0;
  const bool is_closed = n == rest.size() || is_space(rest[n]) || rest.substr(n, 2) == U"--";
  return is_closed ? n : 0;
}

std::vector<TextView> sentences(TextView text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  std::vector<TextView> found;
  std::size_t begin = 0;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (!is_one_of(text[i], U".?!")) continue;
    std::size_t next = i + 1;
    while (next < text.size() && is_space(text[next])) ++next;
    const bool is_candidate = next > i + 1 || is_one_of(text[i + 1], kNonWord);
    if (!is_candidate || next == text.size()) continue;
    if (text[i] == U'.' && !period_ends_sentence(text, begin, i, text[next])) continue;
    const std::size_t closing = closing_prefix(text.substr(next));
    const std::size_t end = closing == 0 ? i + 1 : next + closing;
    found.push_back(text.substr(begin, end - begin));
    begin = closing == 0 ? next : end;
    while (begin < text.size() && is_space(text[begin])) ++begin;
    i = std::max(i, begin == 0 ? 0 : begin - 1);
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

// Whether `text` at `i` continues, ignoring case, with `word` and the word ends there.
bool has_word_at(TextView text, std::size_t i, TextView word) {
  if (text.size() < i + word.size()) return false;
  for (std::size_t k = 0; k < word.size(); ++k) {
    if (to_lower(text[i + k]) != word[k]) return false;
  }
  return i + word.size() == text.size() || !is_word(text[i + word.size()]);
}

// An apostrophe that opens a word, unless it opens a clitic ('s, 're, ...).
Text split_opening_apostrophes(TextView text) {
  constexpr std::array<TextView, 8> kClitics = {U"re", U"ve", U"ll", U"m", U"t", U"s", U"d", U"n"};
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out.push_back(text[i]);
    if (text[i] != U'\'' || (i > 0 && is_word(text[i - 1]))) continue;
    if (i + 1 == text.size() || !is_word(text[i + 1])) continue;
    const bool is_clitic = std::any_of(kClitics.begin(), kClitics.end(), [&](TextView clitic) {
      return has_word_at(text, i + 1, clitic);
    });
    if (!is_clitic) out.push_back(U' ');
  }
  return out;
}

// ([^.])(\.)(closing*)\s*$ -> the period stands alone; `gap` stands between it and what closes.
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
  if (!out.empty() && is_one_of(out.back(), U":,")) {  // the second of two in a row
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
  bool needs_space_before;  // 'tis, 'twas; the others need a word boundary
};

constexpr std::array<Contraction, 10> kContractions = {{{U"cannot", 3, false},
                                                        {U"d'ye", 1, false},
                                                        {U"gimme", 3, false},
                                                        {U"gonna", 3, false},
                                                        {U"gotta", 3, false},
                                                        {U"lemme", 3, false},
                                                        {U"more'n", 4, false},
                                                        {U"wanna", 3, false},
                                                        {U"'tis", 2, true},
                                                        {U"'twas", 2, true}}};

Text split_contractions(TextView text) {
  Text out;
  for (std::size_t i = 0; i < text.size();) {
    const Contraction* found = nullptr;
    for (const Contraction& contraction : kContractions) {
      const bool starts_here = contraction.needs_space_before ? i > 0 && text[i - 1] == U' '
                                                              : i == 0 || !is_word(text[i - 1]);
      if (starts_here && has_word_at(text, i, contraction.whole)) {
        found = &contraction;
        break;
      }
    }
    if (found == nullptr) {
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
      if (end > i) tokens.push_back(encode_utf8(to_lower(words.substr(i, end - i))));
      i = end + 1;
    }
  }
  return tokens;
}

}  // namespace caption::eval
