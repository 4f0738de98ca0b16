// engine/internal/layer_scorer.h: scores sets of layers, which a decoder leaves out, with the
// outputs of the sequences that its engine decodes (drafts/layer_search.h).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "drafts/draft_source.h"
#include "drafts/layer_search.h"
#include "engine/internal/drafted_engine.h"

namespace caption::engine {

class LayerScorer {
 public:
  // A text is at most `text_tokens` tokens, and at most kPageTokens / 2. `num_guess_pages` >= 1.
  LayerScorer(const DraftedEngine& engine, std::int64_t text_tokens, std::int64_t num_guess_pages);

  // Finds at most `most` texts in the outputs of these sequences that were not found before.
  // Returns their number.
  std::int64_t find_texts(std::span<const drafts::DraftQuery> queries, std::int64_t most);
  // Adds the scores of the texts that were found last to `scores`, parallel to `sets`, which are
  // layers that are left out.
  void score(std::span<const drafts::LayerSearch::Layers> sets,
             std::span<drafts::LayerScore> scores);
  void forget(std::int64_t sequence) { used_.erase(sequence); }

  // Texts of one caption, so that the layers are chosen by several.
  static constexpr std::int64_t kTextsOfSequence = 4;

 private:
  // The tokens [first, first + text_tokens_) of a sequence, which lie in one page, and the token
  // after each of them.
  struct Text {
    std::int64_t sequence = 0;
    std::int64_t first = 0;
  };
  struct Used {
    std::int64_t next = 0;  // where the next text may begin
    std::int64_t count = 0;
  };

  bool find_text(const drafts::DraftQuery& query);
  // Copies the pages that the texts lie in.
  void copy_pages(std::span<const Text> texts);
  void compute(std::span<const Text> texts, std::span<const std::int32_t> layers);
  drafts::LayerScore score_of(const Text& text, std::int64_t first_row);

  DraftedEngine engine_;
  std::int64_t text_tokens_;
  std::int64_t most_texts_;  // texts that a pass computes at most
  std::unordered_map<std::int64_t, Used> used_;
  std::vector<Text> texts_;
  std::vector<std::int32_t> table_;
};

}  // namespace caption::engine
