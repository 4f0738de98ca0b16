// eval/meteor.h: METEOR as NLTK computes it, for words with precomputed stems.
//   P = m / |h|    R = m / |r|    F = P R / (alpha P + (1 - alpha) R)
//   score = (1 - gamma (chunks / m)^beta) F;   0 when nothing matches or a side is empty
// Source: Lavie and Agarwal 2007; NLTK 3.10.4, nltk/translate/meteor_score.py, whose greedy
// matching from the end of both sentences is part of the definition: it does not minimise
// crossings. Identical sentences score 1 - gamma / m^beta, below 1.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "eval/korean_stemmer.h"
#include "eval/synonyms.h"
#include "eval/tokenise.h"

namespace caption::eval {

struct MeteorParameters {
  double alpha = 0.9;
  double beta = 3.0;
  double gamma = 0.5;
};

struct MeteorScore {
  double score = 0;
  std::int64_t num_exact = 0;
  std::int64_t num_stem = 0;
  std::int64_t num_synonym = 0;
  std::int64_t num_chunks = 0;
  std::int64_t num_matches() const { return num_exact + num_stem + num_synonym; }
};

// One distinct word. Two words are the same word when their `id` is equal, share a stem when their
// `stems` intersect, and are synonyms when their `synonym_groups` intersect.
struct MeteorWord {
  std::int32_t id = 0;
  std::vector<std::int32_t> stems;           // ascending
  std::vector<std::int32_t> synonym_groups;  // ascending
};
using MeteorSentence = std::vector<const MeteorWord*>;  // borrowed from a MeteorVocabulary

// Converts tokens to words, with one MeteorWord per distinct token. Not thread-safe.
class MeteorVocabulary {
 public:
  // For exact matches only.
  MeteorVocabulary() = default;
  // For exact, stem and, when `synonyms` is not null, synonym matches. Both objects must outlive
  // the vocabulary.
  MeteorVocabulary(const KoreanStemmer* stemmer, const Synonyms* synonyms);

  // The returned words stay valid as long as the vocabulary lives.
  MeteorSentence sentence(const Tokens& tokens);

 private:
  std::int32_t stem_id(const std::string& stem);

  const KoreanStemmer* stemmer_ = nullptr;
  const Synonyms* synonyms_ = nullptr;
  std::unordered_map<std::string, std::unique_ptr<MeteorWord>> words_;
  std::unordered_map<std::string, std::int32_t> stem_ids_;
};

// Matches exact words first, then stems among the unmatched words, then synonyms.
MeteorScore meteor(const MeteorSentence& hypothesis, const MeteorSentence& reference,
                   const MeteorParameters& parameters = {});

// The score with the best reference; all zero without references.
MeteorScore meteor(const MeteorSentence& hypothesis, std::span<const MeteorSentence> references,
                   const MeteorParameters& parameters = {});

}  // namespace caption::eval
