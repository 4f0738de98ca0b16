// text/internal/subword_model.h: what turns one pre-tokenised word into token ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace caption::text {

// Buffers that a model uses again for each word. For use by one thread at a time.
struct ModelScratch {
  // Buffers of BpeModel.
  struct Symbol {
    TokenId id = 0;  // -1: merged into its left neighbour
    std::uint32_t previous = 0;
    std::uint32_t next = 0;
  };
  struct Candidate {
    std::uint64_t order = 0;  // rank << 32 | index of the left symbol
    TokenId merged = 0;
  };
  std::vector<TokenId> symbols;
  std::vector<Symbol> list;
  std::vector<Candidate> heap;
  // A buffer of UnigramModel: the best path to each byte of the word.
  struct Node {
    double score = 0.0;
    std::int32_t begin = -1;  // where the last token begins; -1: no token ends here
    TokenId id = 0;
  };
  std::vector<Node> nodes;
  std::string text;
};

// Immutable and thread-safe.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  // Appends the ids of a word. `word` is valid UTF-8 of less than 2^31 bytes.
  virtual void tokenize(std::string_view word, ModelScratch* scratch,
                        std::vector<TokenId>* ids) const = 0;
};

}  // namespace caption::text
