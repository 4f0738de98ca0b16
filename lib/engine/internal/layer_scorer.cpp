#include "engine/internal/layer_scorer.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/math.h"
#include "engine/internal/softmax_peak.h"

namespace caption::engine {
namespace {

// Texts begin at multiples of so many tokens, so that each lies in one page.
constexpr std::int64_t kTextStep = kv::kPageTokens / 2;
// The log-likelihood of a token whose logits are not finite.
constexpr double kImpossible = -1e6;

drafts::LayerSearch::Layers all_but(const drafts::LayerSearch::Layers& left_out,
                                    std::int64_t num_layers) {
  drafts::LayerSearch::Layers kept;
  for (std::int32_t layer = 0; layer < num_layers; ++layer) {
    if (!std::binary_search(left_out.begin(), left_out.end(), layer)) kept.push_back(layer);
  }
  return kept;
}

}  // namespace

LayerScorer::LayerScorer(const DraftedEngine& engine, std::int64_t text_tokens,
                         std::int64_t num_guess_pages)
    : engine_(engine),
      text_tokens_(std::min({text_tokens, kTextStep, engine.runner.most_rows()})),
      most_texts_(
          std::clamp<std::int64_t>(engine.runner.most_rows() / text_tokens_, 1, num_guess_pages)) {}

bool LayerScorer::find_text(const drafts::DraftQuery& query) {
  // Earlier pages are there, and so are K and V of all tokens but the last.
  if (engine_.pages(query.sequence).num_released() > 0) return false;
  const std::int64_t num_computed = std::ssize(query.tokens) - 1;
  if (engine_.pages(query.sequence).num_tokens() < num_computed) return false;
  Used& used = used_[query.sequence];
  const std::int64_t first =
      std::max(used.next, divide_up(query.num_prompt, kTextStep) * kTextStep);
  if (used.count == kTextsOfSequence || first + text_tokens_ > num_computed) return false;
  texts_.push_back({.sequence = query.sequence, .first = first});
  used = {.next = first + kTextStep, .count = used.count + 1};
  return true;
}

std::int64_t LayerScorer::find_texts(std::span<const drafts::DraftQuery> queries,
                                     std::int64_t most) {
  texts_.clear();
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (const drafts::DraftQuery& query : queries) {
      if (std::ssize(texts_) == most) return most;
      goes_on = find_text(query) || goes_on;
    }
  }
  return std::ssize(texts_);
}

void LayerScorer::copy_pages(std::span<const Text> texts) {
  std::int64_t page = engine_.runner.first_guess_page();
  for (const Text& text : texts) {
    const auto index = static_cast<std::size_t>(text.first / kv::kPageTokens);
    engine_.runner.copy_page({.from = engine_.pages(text.sequence).pages()[index],
                              .to = kv::PageId{static_cast<std::int32_t>(page++)}});
  }
}

void LayerScorer::compute(std::span<const Text> texts, std::span<const std::int32_t> layers) {
  BatchBuilder& builder = engine_.runner.builder();
  std::int64_t max_pages = 0;
  for (const Text& text : texts) {
    max_pages = std::max(max_pages, text.first / kv::kPageTokens + 1);
  }
  builder.begin_guesses(max_pages, layers, BatchBuilder::Layers::kThisTime);
  std::int64_t page = engine_.runner.first_guess_page();
  for (const Text& text : texts) {
    table_.clear();
    const auto num_before = static_cast<std::size_t>(text.first / kv::kPageTokens);
    for (const kv::PageId before : engine_.pages(text.sequence).pages().first(num_before)) {
      table_.push_back(static_cast<std::int32_t>(before));
    }
    table_.push_back(static_cast<std::int32_t>(page++));
    const Sequence& sequence = engine_.sequence(text.sequence);
    const std::span<const std::int32_t> tokens = sequence.tokens;
    builder.add_for_host(sequence,
                         {.first = text.first,
                          .tokens = tokens.subspan(static_cast<std::size_t>(text.first),
                                                   static_cast<std::size_t>(text_tokens_)),
                          .table = table_});
  }
  engine_.runner.run([] {});
}

drafts::LayerScore LayerScorer::score_of(const Text& text, std::int64_t first_row) {
  const Sequence& sequence = engine_.sequence(text.sequence);
  const std::span<const std::int32_t> tokens = sequence.tokens;
  const auto vocab = static_cast<std::size_t>(engine_.runner.spec().vocab);
  const std::span<float> rows = engine_.runner.host_logits(first_row, text_tokens_);
  drafts::LayerScore score;
  bool goes_on = true;
  for (std::int64_t i = 0; i < text_tokens_; ++i) {
    const std::span<float> logits = rows.subspan(static_cast<std::size_t>(i) * vocab, vocab);
    const auto num_known = static_cast<std::size_t>(text.first + i + 1);
    const std::int32_t next = tokens[num_known];
    const std::optional<SoftmaxPeak> peak = find_peak(logits);
    score.log_likelihood +=
        peak.has_value()
            ? std::max(kImpossible, peak->log_probability(logits[static_cast<std::size_t>(next)]))
            : kImpossible;
    if (!goes_on) continue;
    goes_on =
        peak.has_value() &&
        engine_.sampler.sample(sequence.sampling, {tokens.first(num_known), sequence.num_prompt},
                               logits) == next;
    score.num_known += 1;
    score.num_right += goes_on ? 1 : 0;
  }
  return score;
}

void LayerScorer::score(std::span<const drafts::LayerSearch::Layers> sets,
                        std::span<drafts::LayerScore> scores) {
  const std::int64_t num_layers = engine_.runner.spec().num_layers;
  for (std::span<const Text> left = texts_; !left.empty();) {
    const std::span<const Text> texts =
        left.first(static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(left), most_texts_)));
    left = left.subspan(texts.size());
    copy_pages(texts);
    for (std::size_t set = 0; set < sets.size(); ++set) {
      const drafts::LayerSearch::Layers layers = all_but(sets[set], num_layers);
      compute(texts, layers);
      for (std::size_t n = 0; n < texts.size(); ++n) {
        scores[set] += score_of(texts[n], static_cast<std::int64_t>(n) * text_tokens_);
      }
    }
  }
}

}  // namespace caption::engine
