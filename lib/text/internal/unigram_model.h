// text/internal/unigram_model.h: the segmentation of a word whose tokens have the largest sum of
// scores.
// Source: arXiv:1804.10959; same results as Hugging Face tokenizers 0.22
// (tokenizers/src/models/unigram/model.rs, encode_optimized()).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "text/internal/prefix_tree.h"
#include "text/internal/subword_model.h"
#include "text/internal/vocabulary.h"

namespace caption::text {

struct UnigramSpec {
  std::vector<double> scores;  // indexed by id, one for each text of the vocabulary; finite
  // The id of characters that the vocabulary lacks; a run of them is one token.
  TokenId unknown_id = 0;
  bool falls_back_to_bytes = false;  // unknown characters become <0x00>..<0xFF>
};

// Time: O(n * k) for a word of n bytes and a longest token of k bytes; memory: 16 bytes per byte of
// the longest word.
class UnigramModel final : public SubwordModel {
 public:
  // The ids of `vocabulary` are 0 to its size minus one. It must outlive the model.
  UnigramModel(UnigramSpec spec, const Vocabulary& vocabulary);
  void tokenize(std::string_view word, ModelScratch* scratch,
                std::vector<TokenId>* ids) const override;

 private:
  void find_best_path(std::string_view word, std::vector<ModelScratch::Node>* nodes) const;
  void append_unknown(std::string_view characters, std::vector<TokenId>* ids) const;

  const Vocabulary& vocabulary_;
  UnigramSpec spec_;
  double unknown_score_ = 0.0;
  PrefixTree tree_;                    // the texts of the vocabulary
  std::array<TokenId, 256> byte_ids_;  // ids of <0x00>..<0xFF>; -1: none
};

}  // namespace caption::text
