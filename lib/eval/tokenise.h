// eval/tokenise.h: the three ways a caption becomes tokens. A score means nothing without its
// tokenizer, so every metric names the one it used.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caption::eval {

using Tokens = std::vector<std::string>;

// Eojeol, the words between spaces, for meteor-ko, BLEU, ROUGE-L, CIDEr-D and diversity: NFC;
// default-ignorable characters vanish; punctuation and symbols (Unicode P*, S*: emoji too) and
// control characters separate, as spaces do, and are dropped; lower case.
Tokens eojeol_tokens(std::string_view text);

// nltk.word_tokenize(text) of NLTK 3.10 with English Punkt, lower-cased as Python's str.lower():
// what Hugging Face's `evaluate` hands to METEOR. Punctuation counts as words; no normalisation.
// Where Punkt consults its corpus counts (a capitalised English word after a Latin abbreviation, an
// initial, a number or an ellipsis) the model's lists of abbreviations and of sentence starters and
// the case of the next word decide; Korean text needs none of that.
// Linear in the text.
Tokens nltk_word_tokens(std::string_view text);

// What METEOR 1.5 sees in the COCO toolkit, where `-norm` puts spaces around every character that
// is neither Latin nor Cyrillic: a Hangul syllable is a word, "cctv" and "3.5" are words, "'s" is
// one. NFC and lower case; the punctuation that PTBTokenizer drops is dropped, brackets too; other
// symbols are words.
Tokens syllable_tokens(std::string_view text);

}  // namespace caption::eval
