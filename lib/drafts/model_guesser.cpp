#include "drafts/internal/model_guesser.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/log.h"

namespace caption::drafts {
namespace {

// A step counts as at most so many times one without guesses and the passes for them.
constexpr double kMostPassOutlier = 4;
// What the model computes before its guesses is expected to take as long as the longest such
// computation so far, within the times of so many steps of one token: it is asked again although it
// was interrupted once.
constexpr double kLeastPrepareSteps = 8;
constexpr double kMostPrepareSteps = 64;
// After so many steps in which it cannot pay, the model rests.
constexpr std::int64_t kHopelessStepsToRest = 16;

}  // namespace

ModelGuesser::ModelGuesser(const DrafterOptions& options, DraftModel& model,
                           const StepSavings& savings, Proposals& proposals,
                           const Acceptance& acceptance)
    : options_(options),
      model_(model),
      savings_(savings),
      proposals_(proposals),
      acceptance_(acceptance),
      depth_(model.relative_cost()) {}

void ModelGuesser::begin_step() {
  passes_us_ = 0;
  num_queries_ = 0;
  step_counts_ = {};
}

void ModelGuesser::begin_chains(std::span<const DraftQuery> queries,
                                std::int64_t num_prompt_tokens) {
  chains_.clear();
  chained_.clear();
  PlainStep step{.num_tokens = std::ssize(queries),
                 .num_prompt_tokens = num_prompt_tokens,
                 .expected_tokens = static_cast<double>(queries.size())};
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const DraftQuery& query = queries[i];
    const Proposal& proposal = proposals_.at(query.sequence);
    const ModelChain chain{.num_missing = model_.num_missing(query.sequence, output_of(query)),
                           .most = std::min<std::int64_t>(query.most, options_.max_drafts),
                           .trust = proposal.trust()};
    const bool is_model_better =
        proposal.guesses.empty() ||
        (options_.is_adaptive &&
         acceptance_.probability(proposal.source, proposal.guesses[0]) < depth_.alpha());
    if (chain.num_missing > 0 && is_model_better) {
      chains_.push_back(chain);
      chained_.push_back({.query = i, .followers = {}});
      continue;
    }
    double all_right = 1;
    for (const Guess& guess : proposal.guesses) {
      all_right *= probability(acceptance_, proposal.source, guess, proposal);
      if (all_right < 0.5) break;  // a step rarely computes further guesses
      ++step.num_tokens;
      step.expected_tokens += all_right;
    }
  }
  depth_.begin(step, chains_, savings_.costs_of(kind_of(num_prompt_tokens)));
}

// Drafts are worth no caption: a model that fails is not asked again. A lost device, and a fault of
// this program, concern more than the drafts.
StepLoad ModelGuesser::compute_pass() {
  std::string why;
  try {
    return model_.guess(model_queries_, guesses_);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kInternal) throw;
    why = error.what();
  } catch (const std::bad_alloc&) {
    why = "the memory does not suffice";
  }
  has_failed_ = true;
  log_warning("drafts", "the draft model guesses no more: " + why);
  guesses_.assign(model_queries_.size(), Guess{.token = kNoGuess});
  return {};
}

void ModelGuesser::extend_chains(std::span<const DraftQuery> queries,
                                 std::optional<std::size_t> only) {
  model_queries_.clear();
  extended_.clear();
  for (std::size_t i = 0; i < chained_.size(); ++i) {
    if (!chains_[i].is_open() || i != only.value_or(i)) continue;
    const DraftQuery& query = queries[chained_[i].query];
    model_queries_.push_back({.sequence = query.sequence,
                              .output = output_of(query),
                              .followers = chained_[i].followers});
    extended_.push_back(i);
  }
  guesses_.assign(model_queries_.size(), Guess{.token = kNoGuess});
  const StepLoad load = compute_pass();
  passes_us_ += load.us;
  if (load.num_tokens > 0) depth_.observe_pass(load, std::ssize(extended_));
  for (std::size_t n = 0; n < extended_.size(); ++n) {
    ModelChain& chain = chains_[extended_[n]];
    Chained& chained = chained_[extended_[n]];
    const Guess& guess = guesses_[n];
    chain.is_over = guess.token == kNoGuess;
    if (chain.is_over) continue;
    Proposal& proposal = proposals_.at(queries[chained.query].sequence);
    if (chain.num_guesses == 0) proposal.guesses.clear();  // guesses of other sources
    proposal.source = model_.source();
    proposal.guesses.push_back(guess);
    depth_.observe_guess(acceptance_.probability(proposal.source, guess));
    chain.all_right *= probability(acceptance_, proposal.source, guess, proposal);
    chain.num_missing = 1;
    ++chain.num_guesses;
    chained.followers.push_back(guess.token);
  }
}

void ModelGuesser::observe_step(const StepLoad& load) {
  note_saving(load.num_tokens, static_cast<double>(load.us));
  depth_.observe_step(static_cast<double>(load.us - passes_us_));
  begin_step();
}

// The saving is relative to a step that has the drafts of the other sources alone.
void ModelGuesser::note_saving(std::int64_t num_tokens, double us) {
  const auto of_model = static_cast<std::size_t>(model_.source());
  const auto& [computed, accepted, further_tokens] = step_counts_;
  const std::int64_t num_drafts =
      std::accumulate(computed.begin(), computed.end(), std::int64_t{0});
  const std::int64_t num_accepted =
      std::accumulate(accepted.begin(), accepted.end(), std::int64_t{0});
  if (num_queries_ == 0 || num_tokens - num_drafts != num_queries_) return;  // it computed prompts
  const double plain_us =
      savings_.costs_of(StepKind::kDecoding).us(num_tokens - computed[of_model]);
  const auto plain_tokens = static_cast<double>(num_queries_ + num_accepted - accepted[of_model]);
  const double worth_us =
      plain_us * static_cast<double>(num_queries_ + num_accepted) / plain_tokens;
  const double most_us = kMostPassOutlier * (plain_us + static_cast<double>(passes_us_));
  depth_.observe_saving(worth_us - std::min(us, most_us), plain_us);
}

bool ModelGuesser::may_guess(std::span<const DraftQuery> queries) {
  depth_.set_relative_cost(model_.relative_cost());
  const StepCosts& costs = savings_.costs_of(StepKind::kDecoding);
  const bool could_pay = depth_.could_pay(std::ssize(queries), options_.max_drafts, costs);
  const double step_us = costs.us(1);
  const double expected_us =
      std::clamp(prepare_us_, kLeastPrepareSteps * step_us, kMostPrepareSteps * step_us);
  const bool may_compute =
      !options_.is_adaptive || (could_pay && depth_.has_trial_time(expected_us));
  const std::int64_t prepare_us = model_.prepare(queries, may_compute);
  prepare_us_ = std::max(prepare_us_, static_cast<double>(prepare_us));
  depth_.spend_trial_time(static_cast<double>(prepare_us));
  passes_us_ += prepare_us;
  if (!options_.is_adaptive || (could_pay && !depth_.is_paused())) return true;
  num_idle_steps_ += could_pay ? 1 : Drafter::kStepsToRest / kHopelessStepsToRest;
  return false;
}

std::optional<std::size_t> ModelGuesser::guess(std::span<const DraftQuery> queries,
                                               std::int64_t num_prompt_tokens) {
  if (has_failed_ || !may_guess(queries)) return std::nullopt;
  begin_chains(queries, num_prompt_tokens);
  if (chains_.empty()) return std::nullopt;
  const StepCosts& costs = savings_.costs_of(kind_of(num_prompt_tokens));
  const auto is_open = [](const ModelChain& chain) { return chain.is_open(); };
  bool has_begun = false;
  while (std::any_of(chains_.begin(), chains_.end(), is_open)) {
    if (options_.is_adaptive && depth_.more(chains_, costs) == 0) break;
    extend_chains(queries, std::nullopt);
    has_begun = true;
  }
  if (has_begun) {
    num_queries_ = std::ssize(queries);
    num_idle_steps_ = 0;
    return std::nullopt;
  }
  ++num_idle_steps_;
  const auto least = std::min_element(
      chains_.begin(), chains_.end(),
      [](const ModelChain& a, const ModelChain& b) { return a.num_missing < b.num_missing; });
  if (!depth_.begin_trial(*least, costs)) return std::nullopt;
  const auto index = static_cast<std::size_t>(least - chains_.begin());
  extend_chains(queries, index);
  if (least->num_guesses == 0) return std::nullopt;
  return chained_[index].query;
}

}  // namespace caption::drafts
