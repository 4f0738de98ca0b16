#include "drafts/drafter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "drafts/repeated_tokens.h"

namespace caption::drafts {
namespace {

// The estimate of a sequence's own acceptance starts as if so many drafts had been as expected.
constexpr double kPriorDrafts = 12;
// A step is not asked to be tried for a smaller gain than this share of its time.
constexpr double kLeastGain = 0.02;
constexpr int kRounds = 4;  // Dinkelbach's method is then within rounding of its limit
constexpr std::int64_t kStepsPerPlainStep = 256;

}  // namespace

Drafter::Drafter(const DrafterOptions& options, std::shared_ptr<TokenArchive> archive,
                 DraftModel* model)
    : options_(options),
      archive_(std::move(archive)),
      model_(model),
      model_depth_(model == nullptr ? 1 : model->relative_cost()) {
  CAPTION_CHECK(options.max_drafts >= 1, "drafter: max_drafts is below 1");
}

double Drafter::trust_in(const Proposal& proposal) const {
  return (proposal.right + kPriorDrafts) / (proposal.expected + kPriorDrafts);
}

double Drafter::probability(const Proposal& proposal, const Guess& guess) const {
  return std::min(0.99, trust_in(proposal) * acceptance_.probability(proposal.source, guess));
}

void Drafter::find_guesses(const DraftQuery& query, Proposal& proposal) {
  const std::int64_t most = std::min<std::int64_t>(query.most, options_.max_drafts);
  proposal.guesses.clear();
  proposal.source = GuessSource::kArchive;
  if (options_.method == Method::kModel) return;
  if (options_.method == Method::kArchive && archive_ != nullptr) {
    archive_->guess(output_of(query), most, proposal.guesses);
  }
  guess_repetition(query.tokens, most, other_guesses_);
  if (other_guesses_.empty()) return;
  const auto first_probability = [&](GuessSource source, const std::vector<Guess>& guesses) {
    return guesses.empty() ? 0 : acceptance_.probability(source, guesses.front());
  };
  if (first_probability(GuessSource::kRepetition, other_guesses_) >
      first_probability(GuessSource::kArchive, proposal.guesses)) {
    std::swap(proposal.guesses, other_guesses_);
    proposal.source = GuessSource::kRepetition;
  }
}

void Drafter::add_candidates(std::size_t query, const Proposal& proposal) {
  double all_right = 1;
  for (const Guess& guess : proposal.guesses) {
    all_right *= probability(proposal, guess);
    if (options_.is_adaptive && all_right < kLeastGain) return;
    candidates_.push_back({.probability = all_right, .query = query});
  }
}

std::size_t Drafter::best_count(std::int64_t size, double us_per_token) const {
  const double plain_us = costs_.us(size);
  double expected = 0;
  double most_saved_us = kLeastGain * plain_us;
  std::size_t best = 0;
  for (std::size_t count = 1; count <= candidates_.size(); ++count) {
    expected += candidates_[count - 1].probability;
    const double more_us = costs_.us(size + static_cast<std::int64_t>(count)) - plain_us;
    const double saved_us = expected * us_per_token - more_us;
    if (saved_us <= most_saved_us) continue;
    most_saved_us = saved_us;
    best = count;
  }
  return best;
}

// The least time per token is found by Dinkelbach's method (Management Science 1967).
std::size_t Drafter::count_paying(std::int64_t num_sequences,
                                  std::int64_t num_prompt_tokens) const {
  const auto tokens = static_cast<double>(num_sequences);
  const auto spent_us = static_cast<double>(spent_us_);
  double us_per_token = (spent_us + costs_.us(num_sequences)) / tokens;
  std::size_t count = 0;
  for (int round = 0; round < kRounds; ++round) {
    count = best_count(num_sequences, us_per_token);
    double expected = 0;
    for (std::size_t i = 0; i < count; ++i) expected += candidates_[i].probability;
    us_per_token = (spent_us + costs_.us(num_sequences + static_cast<std::int64_t>(count))) /
                   (tokens + expected);
  }
  if (num_prompt_tokens == 0) return count;
  return best_count(num_sequences + num_prompt_tokens, us_per_token);
}

void Drafter::propose(std::span<const DraftQuery> queries, std::int64_t num_prompt_tokens) {
  candidates_.clear();
  spent_us_ = 0;
  // Now and then a step without drafts is measured.
  if (options_.is_adaptive && ++num_proposals_ % kStepsPerPlainStep == 0) return;
  for (const DraftQuery& query : queries) find_guesses(query, proposals_[query.sequence]);
  std::optional<std::size_t> trial;
  if (model_ != nullptr) trial = guess_with_model(queries, num_prompt_tokens);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    add_candidates(i, proposals_.at(queries[i].sequence));
  }
  std::size_t num_taken = candidates_.size();
  if (options_.is_adaptive) {
    // A guess has at most the probability of the one before it, so a stable order keeps chains.
    std::stable_sort(
        candidates_.begin(), candidates_.end(),
        [](const Candidate& a, const Candidate& b) { return a.probability > b.probability; });
    num_taken = count_paying(std::ssize(queries), num_prompt_tokens);
  }
  for (std::size_t i = 0; i < num_taken; ++i) {
    const DraftQuery& query = queries[candidates_[i].query];
    const auto& guesses = proposals_.at(query.sequence).guesses;
    query.drafts->push_back(guesses[query.drafts->size()].token);
  }
  if (trial.has_value() && queries[*trial].drafts->empty()) {
    const DraftQuery& query = queries[*trial];
    query.drafts->push_back(proposals_.at(query.sequence).guesses.front().token);
  }
}

void Drafter::observe(std::int64_t sequence, std::int64_t num_computed, std::int64_t num_accepted,
                      bool was_refused) {
  const auto found = proposals_.find(sequence);
  if (found == proposals_.end()) return;
  Proposal& proposal = found->second;
  CAPTION_CHECK(num_accepted <= num_computed && num_computed <= std::ssize(proposal.guesses),
                "drafter: an outcome without a proposal");
  const auto source = static_cast<std::size_t>(proposal.source);
  counts_.computed[source] += num_computed;
  counts_.accepted[source] += num_accepted;
  step_counts_.computed[source] += num_computed;
  step_counts_.accepted[source] += num_accepted;
  const std::int64_t num_known =
      num_accepted + (was_refused && num_accepted < num_computed ? 1 : 0);
  for (std::int64_t i = 0; i < num_known; ++i) {
    const Guess& guess = proposal.guesses[static_cast<std::size_t>(i)];
    const bool is_right = i < num_accepted;
    proposal.expected += acceptance_.probability(proposal.source, guess);
    proposal.right += is_right ? 1 : 0;
    acceptance_.observe(proposal.source, guess, is_right);
  }
}

void Drafter::observe_step(const StepLoad& load) {
  const auto us = static_cast<double>(load.us - std::exchange(spent_us_, 0));
  if (model_ != nullptr) note_saving(load.num_tokens, static_cast<double>(load.us));
  costs_.observe(load.num_tokens, us);
  model_depth_.observe_step(us);
}

void Drafter::end(std::int64_t sequence, std::span<const std::int32_t> output) {
  proposals_.erase(sequence);
  if (model_ != nullptr) model_->end(sequence);
  if (options_.method == Method::kArchive && archive_ != nullptr) archive_->add(output);
}

}  // namespace caption::drafts
