#include "drafts/drafter.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "drafts/internal/draft_candidates.h"
#include "drafts/internal/guess_search.h"
#include "drafts/internal/model_guesser.h"
#include "drafts/internal/proposal.h"
#include "drafts/internal/step_savings.h"

namespace caption::drafts {
namespace {

constexpr std::int64_t kMostLogitBytes = 64LL << 20;

}  // namespace

struct Drafter::State {
  State(const DrafterOptions& drafter_options, std::shared_ptr<TokenArchive> archive,
        std::shared_ptr<NearestTexts> nearest, DraftModel* draft_model)
      : options(drafter_options),
        search(options, std::move(archive), std::move(nearest), acceptance) {
    if (draft_model != nullptr) {
      model.emplace(options, *draft_model, savings, proposals, acceptance);
    }
  }

  void append_candidates_of(std::size_t query, const Proposal& proposal) {
    append_candidates(query, proposal, acceptance, options.is_adaptive ? kLeastGain : 0,
                      candidates);
  }
  // Offers the tokens of the first num_taken candidates.
  void offer(std::span<const DraftQuery> queries, std::size_t num_taken);

  const DrafterOptions options;
  Acceptance acceptance;
  StepSavings savings;
  Proposals proposals;
  GuessSearch search;
  std::optional<ModelGuesser> model;
  std::vector<Candidate> candidates;  // propose() and propose_after_prompts() choose among these
  DraftedStep step;                   // counts the step that has been proposed for
  DraftCounts counts;
  std::unordered_map<std::int64_t, DraftCounts> ended;  // counts that take_counts() has not taken
};

Drafter::Drafter(const DrafterOptions& options, std::shared_ptr<TokenArchive> archive,
                 std::shared_ptr<NearestTexts> nearest, DraftModel* model)
    : state_(std::make_unique<State>(options, std::move(archive), std::move(nearest), model)) {
  CAPTION_CHECK(options.max_drafts >= 1, "drafter: max_drafts is below 1");
}

Drafter::~Drafter() = default;

void Drafter::begin(std::int64_t sequence, std::uint64_t topic, const Sketch& look) {
  state_->search.begin(topic, look, state_->proposals[sequence]);
}

void Drafter::State::offer(std::span<const DraftQuery> queries, std::size_t num_taken) {
  step.num_offered += static_cast<std::int64_t>(num_taken);
  for (std::size_t i = 0; i < num_taken; ++i) {
    const DraftQuery& query = queries[candidates[i].query];
    const auto& guesses = proposals.at(query.sequence).guesses;
    query.drafts->push_back(guesses[query.drafts->size()].token);
  }
}

void Drafter::propose(std::span<const DraftQuery> queries, std::int64_t num_prompt_tokens) {
  State& s = *state_;
  const std::int64_t num_sequences = std::ssize(queries);
  s.candidates.clear();
  s.step = {.num_sequences = num_sequences};
  if (s.model) s.model->begin_step();
  if (s.options.is_adaptive && s.savings.is_plain_wanted(num_sequences, num_prompt_tokens)) return;
  s.step.is_searched = !s.options.is_adaptive || !s.savings.is_paused(num_sequences);
  for (const DraftQuery& query : queries) {
    Proposal& proposal = s.proposals[query.sequence];
    proposal.guesses.clear();
    if (s.step.is_searched) s.search.find(query, proposal);
  }
  std::optional<std::size_t> trial;
  if (s.model) trial = s.model->guess(queries, num_prompt_tokens);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    s.append_candidates_of(i, s.proposals.at(queries[i].sequence));
  }
  std::size_t num_taken = s.candidates.size();
  if (s.options.is_adaptive) {
    sort_candidates(s.candidates);
    const double passes_us = s.model ? static_cast<double>(s.model->passes_us()) : 0;
    num_taken = most_paying(s.candidates, num_sequences, num_prompt_tokens, passes_us, s.savings);
  }
  s.offer(queries, num_taken);
  if (trial.has_value() && queries[*trial].drafts->empty()) {
    const DraftQuery& query = queries[*trial];
    query.drafts->push_back(s.proposals.at(query.sequence).guesses.front().token);
  }
}

void Drafter::propose_after_prompts(std::span<const DraftQuery> queries, std::int64_t num_decoding,
                                    std::int64_t num_prompt_tokens) {
  State& s = *state_;
  if (s.options.method != Method::kArchive) return;
  const std::int64_t num_sequences = num_decoding + std::ssize(queries);
  const double us_per_token = s.options.is_adaptive ? s.savings.worth_us(num_sequences) : 0;
  if (s.options.is_adaptive && (s.savings.is_paused(num_sequences) || us_per_token == 0)) return;
  const std::int64_t size = num_decoding + num_prompt_tokens + s.step.num_offered;
  s.step.is_searched = true;
  s.candidates.clear();
  for (std::size_t i = 0; i < queries.size(); ++i) {
    Proposal& proposal = s.proposals[queries[i].sequence];
    s.search.find(queries[i], proposal);
    s.search.find_copy(queries[i], proposal);
    s.append_candidates_of(i, proposal);
  }
  std::size_t num_taken = s.candidates.size();
  if (s.options.is_adaptive) {
    sort_candidates(s.candidates);
    num_taken =
        most_saving(s.candidates, size, us_per_token, s.savings.costs_of(StepKind::kWithPrompts));
  }
  s.offer(queries, num_taken);
}

void Drafter::observe(std::int64_t sequence, std::int64_t num_computed, std::int64_t num_accepted,
                      bool was_refused) {
  State& s = *state_;
  const auto found = s.proposals.find(sequence);
  if (found == s.proposals.end()) return;
  Proposal& proposal = found->second;
  CAPTION_CHECK(num_accepted <= num_computed && num_computed <= std::ssize(proposal.guesses),
                "drafter: an outcome without a proposal");
  proposal.num_computed = num_computed;
  const auto source = static_cast<std::size_t>(proposal.source);
  DraftCounts counts;
  counts.computed[source] = num_computed;
  counts.accepted[source] = num_accepted;
  // The token that ended an output was the last draft that was right: none follows it.
  counts.further_tokens = num_accepted - (was_refused ? 0 : 1);
  s.counts += counts;
  proposal.counts += counts;
  s.step.num_drafts += num_computed;
  s.step.num_further_tokens += counts.further_tokens;
  if (s.model) s.model->observe(counts);
  observe_outcome(num_computed, num_accepted, was_refused, s.acceptance, proposal);
}

// Keeping outputs takes time whether there are drafts or not, and says nothing of a step's size.
void Drafter::observe_step(const StepLoad& whole) {
  State& s = *state_;
  StepLoad load = whole;
  load.us -= std::llround(whole.ending_us);
  const std::int64_t passes_us = s.model ? s.model->passes_us() : 0;
  // ModelDepth has the time of a draft model's guesses.
  const double search_us = s.model ? 0 : load.proposing_us;
  if (s.model) s.model->observe_step(load);
  s.savings.observe_step(std::exchange(s.step, {}), load, passes_us, search_us);
  s.savings.add_cost(whole.ending_us);
}

void Drafter::end(std::int64_t sequence, std::span<const std::int32_t> output) {
  State& s = *state_;
  const auto found = s.proposals.find(sequence);
  const bool is_known = found != s.proposals.end();
  s.search.end(is_known ? &found->second : nullptr, output);
  if (is_known) {
    s.ended[sequence] = found->second.counts;
    s.proposals.erase(found);
  }
  if (s.model) s.model->end(sequence);
}

bool Drafter::is_model_resting() const { return !state_->model || state_->model->is_resting(); }

const DraftCounts& Drafter::counts() const { return state_->counts; }

const DraftedSteps& Drafter::steps() const { return state_->savings.totals(); }

DraftCounts Drafter::take_counts(std::int64_t sequence) {
  const auto found = state_->ended.find(sequence);
  if (found == state_->ended.end()) return {};
  const DraftCounts counts = found->second;
  state_->ended.erase(found);
  return counts;
}

std::int64_t most_copied_tokens(Method method, std::int64_t max_new_tokens, std::int64_t vocab) {
  if (method != Method::kArchive) return 0;
  const std::int64_t row_bytes = vocab * static_cast<std::int64_t>(sizeof(float));
  return std::clamp<std::int64_t>(max_new_tokens - 1, 0, kMostLogitBytes / row_bytes);
}

}  // namespace caption::drafts
