// eval/nltk_words.cpp: nltk.word_tokenize: Punkt's sentences (internal/punkt.h), then the rules of
// NLTKWordTokenizer on each of them.
//
// Source: NLTK 3.10.4, nltk/tokenize/destructive.py. The rules are regular expressions there; here
// each is a scan, because std::regex has no Unicode classes and recurses once per character. The
// order of the rules is part of the definition.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "eval/internal/punkt.h"
#include "eval/internal/unicode.h"
#include "eval/tokenise.h"

namespace caption::eval {
namespace {

using Text = std::u32string;
using TextView = std::u32string_view;

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
  for (const TextView sentence : punkt_sentences(chars)) {
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
