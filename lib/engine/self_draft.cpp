#include "engine/self_draft.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "engine/internal/drafted_engine.h"
#include "engine/internal/layer_scorer.h"
#include "engine/internal/softmax_peak.h"

namespace caption::engine {
namespace {

using drafts::Guess;
using drafts::LayerScore;
using drafts::LeftOutLayers;
using drafts::ModelQuery;
using Layers = drafts::LayerSearch::Layers;

std::int64_t pages_of_guesses(const EngineOptions& options) {
  return kv::pages_for_tokens(options.max_drafts);
}

// The layers of a decoder that are not `left_out`. Throws Error(kInternal) if it has not these
// layers.
Layers layers_without(const Layers& left_out, std::int64_t num_layers) {
  Layers kept(static_cast<std::size_t>(num_layers));
  std::iota(kept.begin(), kept.end(), 0);
  for (const std::int32_t layer : left_out) {
    const auto found = std::find(kept.begin(), kept.end(), layer);
    CAPTION_CHECK(found != kept.end(), "self-draft: layer " + std::to_string(layer) + " of " +
                                           std::to_string(num_layers) + " cannot be left out");
    kept.erase(found);
  }
  return kept;
}

}  // namespace

std::int64_t num_guess_pages(const EngineOptions& options) {
  return options.self_draft == nullptr ? 0 : options.max_num_seqs * pages_of_guesses(options);
}

struct SelfDraft::State {
  State(const DraftedEngine& the_engine, const EngineOptions& options)
      : engine(the_engine),
        num_layers(the_engine.runner.spec().num_layers),
        pages_each(pages_of_guesses(options)),
        max_num_seqs(options.max_num_seqs),
        search(num_layers, [this](const Layers& left_out) { return cost_without(left_out); }),
        scorer(engine, kTextTokens, std::max<std::int64_t>(1, num_guess_pages(options))) {
    Layers inner;
    for (std::int32_t layer = 1; layer + 1 < num_layers; ++layer) inner.push_back(layer);
    relative_cost = cost_without(inner);
  }

  double cost_without(const Layers& left_out) const {
    const auto bytes = [&](const Layers& computed) {
      return static_cast<double>(engine.runner.step_weight_bytes(computed));
    };
    return bytes(layers_without(left_out, num_layers)) / bytes(layers_without({}, num_layers));
  }
  void use(const LeftOutLayers& choice);
  // Scores what can be scored now; returns whether the search is done.
  bool search_on(std::span<const drafts::DraftQuery> queries);
  bool can_guess(std::int64_t sequence) const;
  // Sets `table` to the pages of a sequence's tokens up to token `index`, of which those without K
  // and V of all layers may be in the guess pages of its place.
  void set_table(std::int64_t sequence, std::int64_t index);
  // Gives the sequence a place among those of the step.
  std::int64_t place_of(std::int64_t sequence);
  Guess guess_of(const ModelQuery& query, std::int64_t row);

  DraftedEngine engine;
  std::int64_t num_layers;
  std::int64_t pages_each;  // guess pages of a sequence
  std::int64_t max_num_seqs;
  bool is_chosen = false;
  Layers layers;             // layers that a pass computes; empty: there are no guesses
  double relative_cost = 1;  // that of the first and last layer until layers are chosen
  drafts::LayerSearch search;
  LayerScorer scorer;
  std::vector<LayerScore> scores;   // scores of the round, parallel to search.sets()
  std::int64_t num_scored = 0;      // texts of the round
  std::vector<std::int64_t> asked;  // sequences of the step, in the order of their places
  std::vector<std::int32_t> table;
  std::vector<std::int32_t> history;
};

void SelfDraft::State::use(const LeftOutLayers& choice) {
  is_chosen = true;
  relative_cost = cost_without(choice.layers);
  if (choice.pays()) layers = layers_without(choice.layers, num_layers);
}

bool SelfDraft::State::search_on(std::span<const drafts::DraftQuery> queries) {
  if (search.is_done()) return true;
  if (num_scored == 0) scores.assign(search.sets().size(), {});
  const std::int64_t num_found = scorer.find_texts(queries, search.num_texts() - num_scored);
  if (num_found == 0) return false;
  scorer.score(search.sets(), scores);
  num_scored += num_found;
  if (num_scored < search.num_texts()) return false;
  num_scored = 0;
  search.observe(scores);
  return search.is_done();
}

bool SelfDraft::State::can_guess(std::int64_t sequence) const {
  const kv::PageTable& pages = engine.pages(sequence);
  const std::int64_t first = std::ssize(engine.sequence(sequence).tokens) - 1;
  if (first < 1 || pages.num_tokens() < first) return false;
  const std::span<const kv::PageId> written = pages.pages().subspan(static_cast<std::size_t>(
      std::min<std::int64_t>(first / kv::kPageTokens, std::ssize(pages.pages()))));
  return std::all_of(written.begin(), written.end(),
                     [&](kv::PageId page) { return engine.pool.is_writable(page); });
}

std::int64_t SelfDraft::State::place_of(std::int64_t sequence) {
  const auto found = std::find(asked.begin(), asked.end(), sequence);
  const std::int64_t place = found - asked.begin();
  if (found == asked.end()) asked.push_back(sequence);
  CAPTION_CHECK(place < max_num_seqs, "self-draft: more sequences than a step has");
  return place;
}

void SelfDraft::State::set_table(std::int64_t sequence, std::int64_t index) {
  const std::span<const kv::PageId> own = engine.pages(sequence).pages();
  const std::int64_t num_pages = index / kv::kPageTokens + 1;
  const std::int64_t num_own = std::min<std::int64_t>(num_pages, std::ssize(own));
  const std::int64_t num_others = num_pages - num_own;
  CAPTION_CHECK(num_others <= pages_each, "self-draft: more guesses than were planned for");
  table.clear();
  for (const kv::PageId page : own.first(static_cast<std::size_t>(num_own))) {
    table.push_back(static_cast<std::int32_t>(page));
  }
  const std::int64_t first_other =
      engine.runner.first_guess_page() + place_of(sequence) * pages_each;
  for (std::int64_t i = 0; i < num_others; ++i) {
    table.push_back(static_cast<std::int32_t>(first_other + i));
  }
}

// The token that the sequence's own sampling would choose after its tokens and the guesses.
Guess SelfDraft::State::guess_of(const ModelQuery& query, std::int64_t row) {
  const Sequence& sequence = engine.sequence(query.sequence);
  const RequestRows rows = engine.runner.rows(sequence, row, 1);
  if (!rows.tokens.empty()) return guess_of_device(rows.tokens.front());
  const std::optional<SoftmaxPeak> peak = find_peak(rows.logits);
  if (!peak.has_value()) return {.token = drafts::kNoGuess};
  Guess guess = guess_at(*peak);
  history.assign(sequence.tokens.begin(), sequence.tokens.end());
  history.insert(history.end(), query.followers.begin(), query.followers.end());
  try {
    guess.token =
        engine.sampler.sample(sequence.sampling, {history, sequence.num_prompt}, rows.logits);
  } catch (const Error&) {  // no token is left: the step will say so, if it comes to that
    guess.token = drafts::kNoGuess;
  }
  return guess;
}

SelfDraft::SelfDraft(std::shared_ptr<drafts::LayerChoice> choice) : choice_(std::move(choice)) {}

SelfDraft::~SelfDraft() = default;

void SelfDraft::attach(const DraftedEngine& engine, const EngineOptions& options) {
  const std::int32_t first[] = {0};
  if (engine.runner.step_weight_bytes(first) == 0) {
    throw Error(ErrorCode::kUnavailable,
                "engine: this model's decoder cannot leave out layers; self-drafts need one that "
                "can");
  }
  if (options.compression.mode != CompressionMode::kNone) {
    throw Error(ErrorCode::kUsage,
                "engine: self-drafts read the keys and values of whole prompts, which compressed "
                "attention does not keep; use one of them");
  }
  state_ = std::make_unique<State>(engine, options);
  if (const std::optional<LeftOutLayers> known = choice_->get()) state_->use(*known);
}

std::int64_t SelfDraft::prepare(std::span<const drafts::DraftQuery> queries, bool may_compute) {
  State& state = *state_;
  state.asked.clear();
  if (state.is_chosen) return 0;
  const Stopwatch stopwatch;
  if (!choice_->get().has_value()) {
    if (!may_compute || !state.search_on(queries)) return stopwatch.elapsed_us();
    choice_->make(state.search.result());
  }
  state.use(choice_->get().value());
  return stopwatch.elapsed_us();
}

double SelfDraft::relative_cost() const { return state_ == nullptr ? 1 : state_->relative_cost; }

std::optional<drafts::UnfinishedSearch> SelfDraft::unfinished_search() const {
  if (state_ == nullptr || choice_->get().has_value()) return std::nullopt;
  drafts::UnfinishedSearch search = state_->search.progress();
  search.num_texts += state_->num_scored;
  return search;
}

std::int64_t SelfDraft::num_missing(std::int64_t sequence, std::span<const std::int32_t>) const {
  return !state_->layers.empty() && state_->can_guess(sequence) ? 1 : 0;
}

drafts::StepLoad SelfDraft::guess(std::span<const ModelQuery> queries, std::span<Guess> guesses) {
  State& state = *state_;
  const Stopwatch stopwatch;
  const auto last_index = [&](const ModelQuery& query) {
    return std::ssize(state.engine.sequence(query.sequence).tokens) - 1 +
           std::ssize(query.followers);
  };
  std::int64_t max_pages = 0;
  for (const ModelQuery& query : queries) {
    max_pages = std::max(max_pages, last_index(query) / kv::kPageTokens + 1);
  }
  StepRunner& runner = state.engine.runner;
  runner.builder().begin_guesses(max_pages, state.layers, BatchBuilder::Layers::kAlways);
  for (const ModelQuery& query : queries) {
    state.set_table(query.sequence, last_index(query));
    runner.builder().add_guess(state.engine.sequence(query.sequence), query.followers, state.table);
  }
  runner.run([] {});
  for (std::size_t i = 0; i < queries.size(); ++i) {
    guesses[i] = state.guess_of(queries[i], static_cast<std::int64_t>(i));
  }
  return {.num_tokens = std::ssize(queries), .us = stopwatch.elapsed_us()};
}

void SelfDraft::end(std::int64_t sequence) {
  if (state_ != nullptr) state_->scorer.forget(sequence);
}

}  // namespace caption::engine
