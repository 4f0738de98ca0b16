// eval/tokenise.h: the three ways to tokenise a caption. A score is meaningful only together with
// its tokenizer, so every metric names it. All functions are pure and thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caption::eval {

using Tokens = std::vector<std::string>;

// Eojeol, the words between spaces, for meteor-ko, BLEU, ROUGE-L, CIDEr-D and diversity: NFC, lower
// case. Default-ignorable characters are removed; spaces, punctuation and symbols (Unicode P* and
// S*, including emoji) and control characters separate words and are dropped.
Tokens eojeol_tokens(std::string_view text);

// nltk.word_tokenize(text) of NLTK 3.10 with English Punkt, lower-cased as Python's str.lower():
// the tokens that Hugging Face's `evaluate` passes to METEOR. Punctuation counts as words; no
// normalisation. Where Punkt uses its corpus counts (a capitalised English word after a Latin
// abbreviation, an initial, a number or an ellipsis), this function decides by the model's lists of
// abbreviations and sentence starters and the case of the next word; Korean text does not need
// this.
// Linear in the length of the text.
Tokens nltk_word_tokens(std::string_view text);

// The tokens of METEOR 1.5 in the COCO toolkit, where `-norm` puts spaces around every character
// that is neither Latin nor Cyrillic: a Hangul syllable is a word, "cctv" and "3.5" are words, "'s"
// is one. NFC and lower case; punctuation that PTBTokenizer drops, including brackets, is dropped;
// other symbols are words.
Tokens syllable_tokens(std::string_view text);

}  // namespace caption::eval
