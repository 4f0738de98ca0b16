#include "eval/meteor.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

namespace caption::eval {
namespace {

struct Match {
  std::int64_t hypothesis_idx;
  std::int64_t reference_idx;
};

// A word that is not matched yet, with its position in the sentence.
struct Leftover {
  std::int64_t idx;
  const MeteorWord* word;
};

std::vector<Leftover> enumerate(const MeteorSentence& sentence) {
  std::vector<Leftover> words;
  words.reserve(sentence.size());
  for (const MeteorWord* word : sentence) {
    words.push_back({static_cast<std::int64_t>(words.size()), word});
  }
  return words;
}

// Pairs each hypothesis word, from the last to the first, with the last unused reference word that
// shares one of the keys keys_of(word), and moves the pairs from the leftovers to `matches`.
// Returns the number of pairs.
template <class KeysOf>
std::int64_t match_stage(std::vector<Leftover>& hypothesis, std::vector<Leftover>& reference,
                         std::vector<Match>& matches, KeysOf keys_of) {
  // Positions in `reference` by key, ascending, so that the last element is the next to use.
  std::unordered_map<std::int32_t, std::vector<std::size_t>> places;
  for (std::size_t j = 0; j < reference.size(); ++j) {
    for (const std::int32_t key : keys_of(*reference[j].word)) places[key].push_back(j);
  }
  std::vector<char> is_used(reference.size(), 0);
  std::vector<Leftover> unmatched;
  const std::size_t num_before = matches.size();
  for (auto word = hypothesis.rbegin(); word != hypothesis.rend(); ++word) {
    std::size_t best = reference.size();
    for (const std::int32_t key : keys_of(*word->word)) {
      const auto entry = places.find(key);
      if (entry == places.end()) continue;
      std::vector<std::size_t>& free = entry->second;
      while (!free.empty() && is_used[free.back()]) free.pop_back();
      if (!free.empty() && (best == reference.size() || free.back() > best)) best = free.back();
    }
    if (best == reference.size()) {
      unmatched.push_back(*word);
    } else {
      is_used[best] = 1;
      matches.push_back({word->idx, reference[best].idx});
    }
  }
  std::reverse(unmatched.begin(), unmatched.end());
  hypothesis = std::move(unmatched);
  std::size_t kept = 0;
  for (std::size_t j = 0; j < reference.size(); ++j) {
    if (!is_used[j]) reference[kept++] = reference[j];
  }
  reference.resize(kept);
  return static_cast<std::int64_t>(matches.size() - num_before);
}

std::int64_t count_chunks(std::vector<Match>& matches) {
  std::sort(matches.begin(), matches.end(),
            [](const Match& a, const Match& b) { return a.hypothesis_idx < b.hypothesis_idx; });
  std::int64_t chunks = 1;
  for (std::size_t k = 1; k < matches.size(); ++k) {
    const bool continues = matches[k].hypothesis_idx == matches[k - 1].hypothesis_idx + 1 &&
                           matches[k].reference_idx == matches[k - 1].reference_idx + 1;
    if (!continues) ++chunks;
  }
  return chunks;
}

}  // namespace

MeteorVocabulary::MeteorVocabulary(const KoreanStemmer* stemmer, const Synonyms* synonyms)
    : stemmer_(stemmer), synonyms_(synonyms) {}

std::int32_t MeteorVocabulary::stem_id(const std::string& stem) {
  return stem_ids_.try_emplace(stem, static_cast<std::int32_t>(stem_ids_.size())).first->second;
}

MeteorSentence MeteorVocabulary::sentence(const Tokens& tokens) {
  MeteorSentence sentence;
  sentence.reserve(tokens.size());
  for (const std::string& token : tokens) {
    std::unique_ptr<MeteorWord>& word = words_[token];
    if (word == nullptr) {
      word = std::make_unique<MeteorWord>();
      word->id = static_cast<std::int32_t>(words_.size());
      if (stemmer_ != nullptr) {
        for (const std::string& stem : stemmer_->stems(token)) {
          word->stems.push_back(stem_id(stem));
          if (synonyms_ == nullptr) continue;
          const std::vector<std::int32_t> groups = synonyms_->groups_of(stem);
          word->synonym_groups.insert(word->synonym_groups.end(), groups.begin(), groups.end());
        }
      }
      std::sort(word->stems.begin(), word->stems.end());
      std::sort(word->synonym_groups.begin(), word->synonym_groups.end());
    }
    sentence.push_back(word.get());
  }
  return sentence;
}

MeteorScore meteor(const MeteorSentence& hypothesis, const MeteorSentence& reference,
                   const MeteorParameters& parameters) {
  std::vector<Leftover> hypothesis_words = enumerate(hypothesis);
  std::vector<Leftover> reference_words = enumerate(reference);
  std::vector<Match> matches;
  MeteorScore result;
  result.num_exact = match_stage(hypothesis_words, reference_words, matches,
                                 [](const MeteorWord& word) { return std::span(&word.id, 1); });
  result.num_stem = match_stage(hypothesis_words, reference_words, matches,
                                [](const MeteorWord& word) { return std::span(word.stems); });
  result.num_synonym =
      match_stage(hypothesis_words, reference_words, matches,
                  [](const MeteorWord& word) { return std::span(word.synonym_groups); });
  if (matches.empty()) return result;
  result.num_chunks = count_chunks(matches);
  const auto m = static_cast<double>(matches.size());
  const double precision = m / static_cast<double>(hypothesis.size());
  const double recall = m / static_cast<double>(reference.size());
  const double f_mean =
      precision * recall / (parameters.alpha * precision + (1.0 - parameters.alpha) * recall);
  const double fragmentation = static_cast<double>(result.num_chunks) / m;
  result.score = (1.0 - parameters.gamma * std::pow(fragmentation, parameters.beta)) * f_mean;
  return result;
}

MeteorScore meteor(const MeteorSentence& hypothesis, std::span<const MeteorSentence> references,
                   const MeteorParameters& parameters) {
  MeteorScore best;
  for (const MeteorSentence& reference : references) {
    const MeteorScore score = meteor(hypothesis, reference, parameters);
    if (score.score > best.score) best = score;
  }
  return best;
}

}  // namespace caption::eval
