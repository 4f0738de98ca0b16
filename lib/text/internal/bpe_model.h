// text/internal/bpe_model.h: byte pair encoding by ranked merges.
//
// A word starts as its characters; as long as neighbours form a pair of the list of merges, the
// pair of the lowest rank, and of equal ones the leftmost, becomes one token.
// Source: arXiv:1508.07909; same results as Hugging Face tokenizers 0.22
// (tokenizers/src/models/bpe/{model,word}.rs).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/internal/subword_model.h"
#include "text/internal/vocabulary.h"

namespace caption::text {

struct BpeSpec {
  // What the characters of a word are: those of its text, or its bytes, whose names in the
  // vocabulary are those of text/internal/byte_level.h.
  enum class Alphabet { kCharacters, kBytes };
  struct Merge {
    TokenId left = 0;
    TokenId right = 0;
    TokenId merged = 0;
  };

  Alphabet alphabet = Alphabet::kCharacters;
  std::vector<Merge> merges;  // ascending by rank; the last of equal pairs counts
  // The id of a character that the vocabulary lacks; without one, such a character is left out.
  std::optional<TokenId> unknown_id;
  bool fuses_unknown = false;        // a run of unknown characters is one token
  bool falls_back_to_bytes = false;  // unknown characters become <0x00>..<0xFF> (kCharacters only)
  bool ignores_merges = false;       // a word that is in the vocabulary is one token
};

// Time: O(n log n) for a word of n bytes; memory: at most 64 bytes per byte of the longest word.
class BpeModel final : public SubwordModel {
 public:
  // `vocabulary` must outlive the model.
  BpeModel(const BpeSpec& spec, const Vocabulary& vocabulary);
  void tokenize(std::string_view word, ModelScratch* scratch,
                std::vector<TokenId>* ids) const override;

 private:
  void find_split_mark(const BpeSpec& spec);
  void tokenize_part(std::string_view word, ModelScratch* scratch, std::vector<TokenId>* ids) const;
  void start_with_bytes(std::string_view word, std::vector<TokenId>* symbols) const;
  void start_with_characters(std::string_view word, std::vector<TokenId>* symbols) const;
  TokenId find_character(std::string_view character) const;  // -1 when it is not in the vocabulary
  bool append_bytes(std::string_view character, std::vector<TokenId>* symbols) const;
  void merge_short(ModelScratch* scratch, std::vector<TokenId>* ids) const;
  void merge_long(ModelScratch* scratch, std::vector<TokenId>* ids) const;
  const PairTable::Value* find_merge(TokenId left, TokenId right) const {
    return merges_.find(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right));
  }

  BpeSpec::Alphabet alphabet_;
  const Vocabulary& vocabulary_;
  PairTable merges_;                   // (left, right) -> (rank, merged)
  std::array<TokenId, 256> byte_ids_;  // ids of the bytes (kBytes) or of <0x00>..<0xFF>; -1: none
  std::vector<TokenId> bmp_ids_;       // ids of the characters below U+10000; -1: none
  std::optional<TokenId> unknown_id_;
  bool fuses_unknown_ = false;
  bool falls_back_to_bytes_ = false;
  bool ignores_merges_ = false;
  // Whether no merge joins a character and a U+2581 after it: a text may then be cut before each
  // U+2581 that follows another character.
  bool splits_at_mark_ = false;
};

}  // namespace caption::text
