// text/internal/tokenizer_choice.h: which file of a folder with two tokenizers counts.
#pragma once

#include "text/internal/tokenizer_files.h"

namespace caption::text {

// Whether tokenizer.model is the folder's tokenizer. A tokenizer.json beside it counts instead if
// it is of the type Unigram, as the model is, because it also holds the normalisation; and, with a
// warning, if it gives other texts to the ids, because the reference then reads it (AutoTokenizer
// of transformers 4.57.6). Warns of a tokenizer.json that is passed over because this build does
// not run it, or it is no whole tokenizer. Throws Error(kBadModel) for a tokenizer.json that is no
// JSON and a damaged tokenizer.model.
bool is_sentencepiece(const TokenizerFiles& files);

}  // namespace caption::text
