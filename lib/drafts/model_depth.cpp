#include "drafts/model_depth.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace caption::drafts {
namespace {

constexpr int kRounds = 4;           // Dinkelbach's method is then within rounding of its limit
constexpr double kMostGuesses = 64;  // alpha is the mean probability of about so many guesses
// From a pass that computes more tokens than this for each sequence, the cost of a token that must
// be caught up is learned, not the cost of a usual pass.
constexpr std::int64_t kCatchUpFactor = 4;
// Before it was measured, a token that must be caught up costs so much of a pass for one token.
constexpr double kFirstCatchUp = 0.125;
constexpr double kWeightOfCatchUp = 0.25;  // weight of a new time in the mean of these times
constexpr double kMostAlpha = 0.99;
constexpr double kMostTrialSteps = 100;  // a trial may cost as much as so many steps
// Guesses, the prior's weight included, after which alpha counts as known.
constexpr double kFirstGuesses = 52;
// The probability that a guess is right of a model that is nearly always right.
constexpr double kBestAlpha = 0.95;
// Alpha is within so many standard errors of its mean.
constexpr double kMostErrors = 2;
// Passes of up to so many times the tokens of the largest measured one, and as many times less than
// the smallest, are estimated from measured ones.
constexpr std::int64_t kKnownFactor = 2;

double alpha_of(const ModelChain& chain, double alpha) {
  return std::clamp(chain.trust * alpha, 0.0, kMostAlpha);
}

std::int64_t num_guesses(std::span<const ModelChain> chains) {
  std::int64_t sum = 0;
  for (const ModelChain& chain : chains) sum += chain.num_guesses;
  return sum;
}

}  // namespace

double ModelDepth::pass_us(std::int64_t num_tokens, const StepCosts& steps) const {
  const bool is_known = smallest_pass_ > 0 && num_tokens * kKnownFactor >= smallest_pass_ &&
                        num_tokens <= kKnownFactor * largest_pass_;
  return is_known ? passes_.us(num_tokens) : relative_cost_ * steps.us(num_tokens);
}

double ModelDepth::catch_up_us(std::int64_t num_missing, std::int64_t num_chains,
                               const StepCosts& steps) const {
  const double per_token =
      catch_up_us_ > 0 ? catch_up_us_ : kFirstCatchUp * relative_cost_ * steps.us(1);
  return per_token * static_cast<double>(num_missing - num_chains);
}

ModelDepth::Choice ModelDepth::best(std::span<const ModelChain> chains, std::int64_t num_tokens,
                                    double us_per_token, double least_saved_us,
                                    const StepCosts& steps) const {
  Choice best;
  Choice tried;
  double passes_us = 0;
  std::int64_t num_rows = 0;
  const double plain_us = steps.us(num_tokens);
  double most_saved_us = least_saved_us;
  for (;;) {
    ++tried.depth;
    std::int64_t num_chains = 0;
    std::int64_t num_missing = 0;
    for (const ModelChain& chain : chains) {
      if (!chain.is_open() || chain.num_guesses + tried.depth > chain.most) continue;
      const double probability =
          chain.all_right * std::pow(alpha_of(chain, alpha_), static_cast<double>(tried.depth));
      ++num_chains;
      num_missing += chain.num_missing;
      tried.tokens += probability;
    }
    if (num_chains == 0) return best;
    passes_us += pass_us(num_chains, steps);
    if (tried.depth == 1) passes_us += catch_up_us(num_missing, num_chains, steps) / kCatchUpSteps;
    num_rows += num_chains;
    tried.us = passes_us + steps.us(num_tokens + num_rows) - plain_us;
    const double saved_us = tried.tokens * us_per_token - tried.us;
    if (saved_us <= most_saved_us) continue;
    most_saved_us = saved_us;
    best = tried;
  }
}

bool ModelDepth::would_pay(double alpha, std::int64_t num_sequences, std::int64_t most,
                           const StepCosts& steps) const {
  const double plain_us = steps.us(num_sequences);
  // Passes that were slow once are so no reason never to try one again.
  const double least_pass_us = std::min(pass_us(num_sequences, steps), relative_cost_ * plain_us);
  double tokens = 1;  // tokens that a sequence gets in a step
  double all_right = 1;
  bool pays = false;
  for (std::int64_t depth = 1; depth <= most && plain_us > 0; ++depth) {
    all_right *= alpha;
    tokens += all_right;
    const double us =
        static_cast<double>(depth) * least_pass_us + steps.us(num_sequences * (1 + depth));
    pays = pays || tokens * plain_us > (1 + kLeastGain) * us;
  }
  return pays;
}

double ModelDepth::most_alpha() const {
  return alpha_ + kMostErrors * std::sqrt(alpha_ * (1 - alpha_) / num_guesses_);
}

bool ModelDepth::could_pay(std::int64_t num_sequences, std::int64_t most, const StepCosts& steps) {
  could_pay_ = would_pay(kBestAlpha, num_sequences, most, steps);
  is_hopeful_ =
      could_pay_ && would_pay(std::min(most_alpha(), kBestAlpha), num_sequences, most, steps);
  return could_pay_;
}

// The least time per token is found by Dinkelbach's method (Management Science 1967).
void ModelDepth::begin(const PlainStep& step, std::span<const ModelChain> chains,
                       const StepCosts& steps) {
  step_ = step;
  const double plain_us = steps.us(step.num_tokens);
  us_per_token_ = plain_us / step.expected_tokens;
  for (int round = 0; round < kRounds; ++round) {
    const Choice choice =
        best(chains, step.num_tokens, us_per_token_, kLeastGain * plain_us, steps);
    us_per_token_ = (plain_us + choice.us) / (step.expected_tokens + choice.tokens);
  }
}

std::int64_t ModelDepth::more(std::span<const ModelChain> chains, const StepCosts& steps) const {
  const std::int64_t num_drafted = num_guesses(chains);
  const std::int64_t num_tokens = step_.num_tokens + step_.num_prompt_tokens + num_drafted;
  const double least_saved_us = num_drafted == 0 ? kLeastGain * steps.us(num_tokens) : 0;
  return best(chains, num_tokens, us_per_token_, least_saved_us, steps).depth;
}

bool ModelDepth::begin_trial(const ModelChain& chain, const StepCosts& steps) {
  const std::int64_t num_tokens = step_.num_tokens + step_.num_prompt_tokens;
  const double plain_us = steps.us(num_tokens);
  // Sizes that differ by one token may be of one class, whose time is that of both.
  const double row_us =
      std::max(steps.us(num_tokens + 1) - plain_us,
               (steps.us(2 * num_tokens) - plain_us) / static_cast<double>(num_tokens));
  const double us = pass_us(1, steps) + catch_up_us(chain.num_missing, 1, steps) + row_us;
  if (us <= 0 || us > trial_us_) return false;
  trial_us_ -= row_us;
  untried_us_ = plain_us + row_us;
  return true;
}

void ModelDepth::observe_guess(double probability) {
  num_guesses_ = std::min(num_guesses_ + 1, kMostGuesses);
  alpha_ += (probability - alpha_) / num_guesses_;
}

void ModelDepth::observe_pass(const StepLoad& load, std::int64_t num_chains) {
  const auto us = static_cast<double>(load.us);
  if (untried_us_.has_value()) {
    trial_us_ -= us;
    ++num_trials_;
  } else {
    num_trials_ = 0;
  }
  if (load.num_tokens >= kCatchUpFactor * num_chains) {
    const double usual_us = smallest_pass_ > 0 ? passes_.us(num_chains) : 0;
    const double per_token =
        std::max(0.0, us - usual_us) / static_cast<double>(load.num_tokens - num_chains);
    catch_up_of_step_us_ += std::max(0.0, us - usual_us);
    catch_up_us_ += (catch_up_us_ == 0 ? 1 : kWeightOfCatchUp) * (per_token - catch_up_us_);
    return;
  }
  passes_.observe(load.num_tokens, us);
  smallest_pass_ =
      smallest_pass_ == 0 ? load.num_tokens : std::min(smallest_pass_, load.num_tokens);
  largest_pass_ = std::max(largest_pass_, load.num_tokens);
}

void ModelDepth::observe_saving(double saved_us, double plain_us) {
  owed_us_ += catch_up_of_step_us_;
  balance_.observe(saved_us + catch_up_of_step_us_, plain_us);
}

void ModelDepth::observe_step(double us) {
  catch_up_of_step_us_ = 0;
  // Also to steps without guesses: those with guesses may have ended.
  if (balance_.is_paused()) owed_us_ = 0;
  const double charged_us = owed_us_ / kCatchUpSteps;
  owed_us_ -= charged_us;
  if (charged_us > 0) balance_.observe(-charged_us, us);
  if (untried_us_.has_value()) trial_us_ -= std::max(0.0, us - *untried_us_);
  untried_us_.reset();
  if (std::exchange(could_pay_, false)) {
    const double later_share = kTrialShare * kFirstGuesses / std::max(kFirstGuesses, num_trials_);
    const bool is_first = num_guesses_ < kFirstGuesses && is_hopeful_;
    const double share = is_first ? kFirstTrialShare : later_share;
    trial_us_ = std::min(trial_us_ + share * us, kMostTrialSteps * us);
  }
  balance_.count_step();
}

}  // namespace caption::drafts
