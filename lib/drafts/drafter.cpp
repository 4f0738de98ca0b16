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
constexpr std::int64_t kStepsPerPlainStep = 128;
// Steps of a number of sequences have no drafts until so many of them were measured without, which
// steps with prompts wait for no longer than kMostWaits of them.
constexpr int kPlainSteps = 3;
constexpr std::int64_t kMostWaits = 32;
// A sequence guesses from at most so many of the nearest texts, in so many bytes.
constexpr std::size_t kMostNearest = 8;
constexpr std::int64_t kNearestBytes = 1LL << 20;
constexpr double kWeightOfStep = 1.0 / 16;  // in the mean time of a token
// A step counts as at most so many times the usual time of its size.
constexpr double kMostOutlier = 2;
// A search counts as at most this share of a step without drafts.
constexpr double kMostSearch = 0.25;

}  // namespace

Drafter::Drafter(const DrafterOptions& options, std::shared_ptr<TokenArchive> archive,
                 std::shared_ptr<NearestTexts> nearest, DraftModel* model)
    : options_(options),
      archive_(std::move(archive)),
      nearest_(std::move(nearest)),
      model_(model),
      model_depth_(model == nullptr ? 1 : model->relative_cost()) {
  CAPTION_CHECK(options.max_drafts >= 1, "drafter: max_drafts is below 1");
}

double Drafter::trust_in(const Proposal& proposal) const {
  return (proposal.right + kPriorDrafts) / (proposal.expected + kPriorDrafts);
}

double Drafter::probability(GuessSource source, const Proposal& proposal,
                            const Guess& guess) const {
  return std::min(0.99, trust_in(proposal) * acceptance_.probability(source, guess));
}

void Drafter::begin(std::int64_t sequence, std::uint64_t topic, const Sketch& look) {
  if (nearest_ == nullptr) return;
  Proposal& proposal = proposals_[sequence];
  proposal.topic = topic;
  proposal.look = look;
}

void Drafter::find_nearest(Proposal& proposal) {
  if (!proposal.look.has_value() || proposal.nearest != nullptr) return;
  proposal.nearest = std::make_unique<TokenArchive>(kNearestBytes);
  proposal.found = nearest_->find(proposal.topic, *proposal.look, kMostNearest);
  for (const NearestTexts::Found& found : proposal.found) proposal.nearest->add(*found.text);
}

void Drafter::consider(GuessSource source, Proposal& proposal) {
  if (other_guesses_.empty()) return;
  if (!proposal.guesses.empty() &&
      acceptance_.probability(source, other_guesses_.front()) <=
          acceptance_.probability(proposal.source, proposal.guesses.front())) {
    return;
  }
  std::swap(proposal.guesses, other_guesses_);
  proposal.source = source;
}

void Drafter::guess_from_archive(std::span<const std::int32_t> output, std::int64_t most,
                                 Proposal& proposal) {
  const std::span<const Guess> left = proposal.of_archive.after(output);
  if (std::ssize(left) > proposal.num_computed) {
    other_guesses_.assign(left.begin(), left.begin() + std::min(std::ssize(left), most));
    return;
  }
  archive_->guess(output, most, other_guesses_, frequent_guesses_);
  if (!frequent_guesses_.empty() &&
      expected_right(GuessSource::kArchive, frequent_guesses_, proposal) >
          expected_right(GuessSource::kArchive, other_guesses_, proposal)) {
    std::swap(other_guesses_, frequent_guesses_);
  }
  proposal.of_archive.set(output.size(), other_guesses_);
}

void Drafter::find_guesses(const DraftQuery& query, Proposal& proposal) {
  const std::int64_t most = std::min<std::int64_t>(query.most, options_.max_drafts);
  proposal.guesses.clear();
  proposal.source = GuessSource::kArchive;
  if (options_.method == Method::kModel || options_.method == Method::kSelf) return;
  const std::span<const std::int32_t> output = output_of(query);
  if (options_.method == Method::kArchive) {
    find_nearest(proposal);
    if (proposal.nearest != nullptr) {
      proposal.nearest->guess(output, most, other_guesses_);
      consider(GuessSource::kNearest, proposal);
    }
    if (archive_ != nullptr) {
      guess_from_archive(output, most, proposal);
      consider(GuessSource::kArchive, proposal);
    }
  }
  guess_repetition(query.tokens, most, other_guesses_);
  consider(GuessSource::kRepetition, proposal);
}

void Drafter::add_candidates(std::size_t query, const Proposal& proposal) {
  double all_right = 1;
  for (const Guess& guess : proposal.guesses) {
    all_right *= probability(proposal, guess);
    if (options_.is_adaptive && all_right < kLeastGain) return;
    candidates_.push_back({.probability = all_right, .query = query});
  }
}

std::size_t Drafter::best_count(std::int64_t size, double us_per_token,
                                const StepCosts& costs) const {
  const double plain_us = costs.us(size);
  double expected = 0;
  double most_saved_us = kLeastGain * plain_us;
  std::size_t best = 0;
  for (std::size_t count = 1; count <= candidates_.size(); ++count) {
    expected += candidates_[count - 1].probability;
    const double more_us = costs.us(size + static_cast<std::int64_t>(count)) - plain_us;
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
  const StepCosts& costs = costs_of(StepKind::kDecoding);
  double us_per_token = (spent_us + costs.us(num_sequences)) / tokens;
  std::size_t count = 0;
  for (int round = 0; round < kRounds; ++round) {
    count = best_count(num_sequences, us_per_token, costs);
    double expected = 0;
    for (std::size_t i = 0; i < count; ++i) expected += candidates_[i].probability;
    us_per_token = (spent_us + costs.us(num_sequences + static_cast<std::int64_t>(count))) /
                   (tokens + expected);
  }
  if (num_prompt_tokens == 0) return count;
  return best_count(num_sequences + num_prompt_tokens, us_per_token,
                    costs_of(StepKind::kWithPrompts));
}

// A guess has at most the probability of the one before it, so a stable order keeps chains.
void Drafter::sort_candidates() {
  std::stable_sort(
      candidates_.begin(), candidates_.end(),
      [](const Candidate& a, const Candidate& b) { return a.probability > b.probability; });
}

void Drafter::offer(std::span<const DraftQuery> queries, std::size_t num_taken) {
  step_.num_offered += static_cast<std::int64_t>(num_taken);
  for (std::size_t i = 0; i < num_taken; ++i) {
    const DraftQuery& query = queries[candidates_[i].query];
    const auto& guesses = proposals_.at(query.sequence).guesses;
    query.drafts->push_back(guesses[query.drafts->size()].token);
  }
}

// First, and now and then, a step without drafts is measured.
bool Drafter::is_plain_wanted(std::int64_t num_sequences, std::int64_t num_prompt_tokens) {
  if (!options_.is_adaptive) return false;
  if (++num_proposals_ % kStepsPerPlainStep == 0) return true;
  if (plain_costs_.has_measured(num_sequences, kPlainSteps)) return false;
  return num_prompt_tokens == 0 || ++num_waits_ <= kMostWaits;
}

double Drafter::worth_us(std::int64_t num_sequences) const {
  const StepCosts& costs = costs_of(StepKind::kDecoding);
  if (!costs.has_measured(num_sequences, 1)) return 0;
  const double plain_us = costs.us(num_sequences) / static_cast<double>(num_sequences);
  return us_per_token_ > 0 ? std::min(us_per_token_, plain_us) : plain_us;
}

void Drafter::propose(std::span<const DraftQuery> queries, std::int64_t num_prompt_tokens) {
  candidates_.clear();
  step_ = {.num_sequences = std::ssize(queries)};
  spent_us_ = 0;
  if (is_plain_wanted(std::ssize(queries), num_prompt_tokens)) return;
  step_.is_searched = !options_.is_adaptive || !balance_of(std::ssize(queries)).is_paused();
  for (const DraftQuery& query : queries) {
    Proposal& proposal = proposals_[query.sequence];
    proposal.guesses.clear();
    if (step_.is_searched) find_guesses(query, proposal);
  }
  std::optional<std::size_t> trial;
  if (model_ != nullptr) trial = guess_with_model(queries, num_prompt_tokens);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    add_candidates(i, proposals_.at(queries[i].sequence));
  }
  std::size_t num_taken = candidates_.size();
  if (options_.is_adaptive) {
    sort_candidates();
    num_taken = count_paying(std::ssize(queries), num_prompt_tokens);
  }
  offer(queries, num_taken);
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
  proposal.num_computed = num_computed;
  const auto source = static_cast<std::size_t>(proposal.source);
  DraftCounts counts;
  counts.computed[source] = num_computed;
  counts.accepted[source] = num_accepted;
  // The token that ended an output was the last draft that was right: none follows it.
  counts.further_tokens = num_accepted - (was_refused ? 0 : 1);
  counts_ += counts;
  proposal.counts += counts;
  step_.num_drafts += num_computed;
  step_.num_further_tokens += counts.further_tokens;
  step_counts_ += counts;
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
  const std::int64_t spent_us = std::exchange(spent_us_, 0);
  const auto us = static_cast<double>(load.us - spent_us);
  if (model_ != nullptr) {
    note_saving(load.num_tokens, static_cast<double>(load.us), static_cast<double>(spent_us));
  }
  // ModelDepth has the time of a draft model's guesses.
  const double search_us = model_ == nullptr ? load.proposing_us : 0;
  costs_.observe(load.num_tokens, us - search_us);
  model_depth_.observe_step(us);
  const Step step = std::exchange(step_, {});
  balance_of(step.num_sequences).count_step();
  note_decoding(step, load, spent_us, search_us);
  if (step.num_sequences == 0 && step.num_drafts == 0) return;
  ++steps_.all;
  steps_.saved_us -= static_cast<double>(spent_us) + search_us;
  if (step.num_drafts == 0) return charge_search(step, search_us);
  ++steps_.with_drafts;
  add_savings(step, load, search_us);
}

void Drafter::charge_search(const Step& step, double search_us) {
  if (!step.is_searched) return;
  const double plain_us = plain_costs_.us(step.num_sequences);
  balance_of(step.num_sequences).observe(-std::min(search_us, kMostSearch * plain_us), plain_us);
}

void Drafter::add_savings(const Step& step, const StepLoad& load, double search_us) {
  const std::int64_t num_plain = std::max<std::int64_t>(1, step.num_sequences);
  const double plain_us = costs_of(StepKind::kDecoding).us(num_plain);
  const bool had_prompts = load.num_tokens > step.num_sequences + step.num_drafts;
  const StepCosts& costs = costs_of(had_prompts ? StepKind::kWithPrompts : StepKind::kDecoding);
  double us_per_token = plain_us / static_cast<double>(num_plain);
  if (had_prompts && us_per_token_ > 0) us_per_token = std::min(us_per_token, us_per_token_);
  const double added_us = costs.us(load.num_tokens) - costs.us(load.num_tokens - step.num_drafts);
  const double saved_us = static_cast<double>(step.num_further_tokens) * us_per_token - added_us;
  steps_.saved_us += saved_us;
  if (!had_prompts) return;
  balance_of(step.num_sequences)
      .observe(saved_us - std::min(search_us, kMostSearch * plain_us), plain_us);
}

void Drafter::note_decoding(const Step& step, const StepLoad& load, std::int64_t spent_us,
                            double search_us) {
  if (step.num_sequences == 0 || load.num_tokens != step.num_sequences + step.num_drafts) return;
  const auto num_sequences = static_cast<double>(step.num_sequences);
  const auto num_further = static_cast<double>(step.num_further_tokens);
  const auto us = static_cast<double>(load.us);
  decode_costs_.observe(load.num_tokens, us - static_cast<double>(spent_us) - search_us);
  const double per_token = us / (num_sequences + num_further);
  us_per_token_ += (us_per_token_ == 0 ? 1 : kWeightOfStep) * (per_token - us_per_token_);
  if (step.num_drafts == 0) return plain_costs_.observe(load.num_tokens, us - search_us);
  const double plain_us = plain_costs_.us(step.num_sequences);
  if (spent_us > 0 || plain_us == 0) return;
  const double usual_us = std::min(us, kMostOutlier * decode_costs_.us(load.num_tokens));
  balance_of(step.num_sequences)
      .observe(plain_us * (1 + num_further / num_sequences) - usual_us, plain_us);
}

void Drafter::end(std::int64_t sequence, std::span<const std::int32_t> output) {
  const auto found = proposals_.find(sequence);
  if (found != proposals_.end()) {
    ended_[sequence] = found->second.counts;
    const Proposal& proposal = found->second;
    if (proposal.look.has_value()) nearest_->add(proposal.topic, *proposal.look, output);
    proposals_.erase(found);
  }
  if (model_ != nullptr) model_->end(sequence);
  if (options_.method == Method::kArchive && archive_ != nullptr) archive_->add(output);
}

DraftCounts Drafter::take_counts(std::int64_t sequence) {
  const auto found = ended_.find(sequence);
  if (found == ended_.end()) return {};
  const DraftCounts counts = found->second;
  ended_.erase(found);
  return counts;
}

}  // namespace caption::drafts
