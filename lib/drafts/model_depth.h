// drafts/model_depth.h: how many tokens a draft model guesses in a step.
//
// A step of R sequences of which each gets d guesses takes d passes of the draft model, of time c
// each, and verifies R (1 + d) tokens in the time t(R (1 + d)). With alpha the probability that a
// guess is right when those before it are, it gives R (1 + alpha + ... + alpha^d) tokens
// (Leviathan et al., arXiv:2211.17192, section 3.3). The depth is the one of the least time per
// token; 0 where that saves less than kLeastGain of it. After each pass the decision is made again
// with the probabilities of the guesses that are known by then.
//
// t and c are measured (StepCosts), and alpha is the mean probability of recent guesses
// (Acceptance). A model that is not used is tried on a single sequence at a time, where the costs
// leave a gain to guesses that are nearly always right, and in a small share of the time of these
// steps: kFirstTrialShare until alpha is known, or is known to be too small; later kTrialShare,
// which falls as trials lead to nothing: where the model never pays, n steps have trials in the
// order of sqrt(n). So a run in which the model cannot pay, as with many sequences on a CPU, loses
// nothing, and a short run little. What steps
// with guesses saved or lost is added up as well: when they have lost time together, there is a
// pause (drafts/savings_balance.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "drafts/draft_model.h"
#include "drafts/savings_balance.h"
#include "drafts/step_costs.h"

namespace caption::drafts {

// A step without the guesses of the draft model, for which they are wanted.
struct PlainStep {
  std::int64_t num_tokens = 0;         // tokens of decoding sequences, with drafts of other sources
  std::int64_t num_prompt_tokens = 0;  // tokens of prompts, not counted in num_tokens
  double expected_tokens = 0;          // new tokens that the step is expected to give
};

// The guesses of one sequence.
struct ModelChain {
  std::int64_t num_missing = 0;  // DraftModel::num_missing(), >= 1
  std::int64_t most = 0;         // the largest number of guesses
  double trust = 1;              // how often the sequence's guesses were right, in terms of alpha
  double all_right = 1;          // the probability that all guesses so far are right
  std::int64_t num_guesses = 0;
  bool is_over = false;  // the model has no further guess

  bool is_open() const { return !is_over && num_guesses < most; }
};

// Not thread-safe.
class ModelDepth {
 public:
  // `relative_cost` is DraftModel::relative_cost().
  explicit ModelDepth(double relative_cost) : relative_cost_(relative_cost) {}

  void set_relative_cost(double relative_cost) { relative_cost_ = relative_cost; }

  // Begins a step that decodes so many sequences, of which each may have `most` guesses. Returns
  // whether the model could pay there: false also while the costs of such steps are not known.
  bool could_pay(std::int64_t num_sequences, std::int64_t most, const StepCosts& steps);
  // Whether so much time is set aside, for what the model computes before it can guess, and what
  // that took.
  bool has_trial_time(double us) const { return trial_us_ >= us; }
  void spend_trial_time(double us) { trial_us_ -= us; }

  // Begins the decisions of a step: finds the least time per token. `steps` are the costs of the
  // target's steps.
  void begin(const PlainStep& step, std::span<const ModelChain> chains, const StepCosts& steps);
  // How many further guesses each open chain shall have; the passes so far are in `chains`.
  std::int64_t more(std::span<const ModelChain> chains, const StepCosts& steps) const;
  // Whether the time that is set aside for trials pays one guess for this chain; then it is one.
  bool begin_trial(const ModelChain& chain, const StepCosts& steps);

  // The probability that a further guess is right when those before it are: the mean of the latest
  // guesses' probabilities.
  double alpha() const { return alpha_; }

  void observe_guess(double probability);
  // Learns the time of a pass of the draft model for `num_chains` sequences.
  void observe_pass(const StepLoad& load, std::int64_t num_chains);
  // Learns the time of the target's step, without the draft model's passes.
  void observe_step(double us);
  // Learns that the guesses of a step saved `saved_us` (below 0: lost them); the step takes
  // plain_us without them. What the model had to compute before its first guess for a sequence is
  // charged to kCatchUpSteps steps, about.
  void observe_saving(double saved_us, double plain_us);
  bool is_paused() const { return balance_.is_paused(); }

  static constexpr double kLeastGain = 0.05;
  static constexpr double kFirstTrialShare = 0.04;
  static constexpr double kTrialShare = 0.005;
  static constexpr double kCatchUpSteps = 32;

 private:
  // Whether guesses that are right with this probability would pay.
  bool would_pay(double alpha, std::int64_t num_sequences, std::int64_t most,
                 const StepCosts& steps) const;
  // The largest alpha that the guesses so far leave likely.
  double most_alpha() const;

  struct Choice {
    std::int64_t depth = 0;
    double tokens = 0;  // expected number of tokens that the guesses add to the step
    double us = 0;      // time that the guesses add to the step
  };
  double pass_us(std::int64_t num_tokens, const StepCosts& steps) const;
  // Microseconds by which a pass that computes num_missing tokens of each chain takes longer than
  // one that computes a single token of each.
  double catch_up_us(std::int64_t num_missing, std::int64_t num_chains,
                     const StepCosts& steps) const;
  // The depth that saves most in a step of `num_tokens` tokens when a token is worth
  // `us_per_token`.
  Choice best(std::span<const ModelChain> chains, std::int64_t num_tokens, double us_per_token,
              double least_saved_us, const StepCosts& steps) const;

  double relative_cost_;
  StepCosts passes_;
  std::int64_t smallest_pass_ = 0;  // tokens; 0: none was measured
  std::int64_t largest_pass_ = 0;
  double catch_up_us_ = 0;  // mean per token; 0: none was measured
  double alpha_ = 0.6;
  double num_guesses_ = 4;            // weight of the prior, in guesses
  double trial_us_ = 0;               // may be spent on trials; negative after an expensive one
  double num_trials_ = 0;             // since the model was last used without a trial
  bool could_pay_ = false;            // whether guesses could pay in the step under way
  bool is_hopeful_ = false;           // whether they could with most_alpha()
  std::optional<double> untried_us_;  // during a trial, the expected time of its step
  // The savings of steps with guesses of a model, whose passes cost time, scatter more than others.
  SavingsBalance balance_{1024, 8};
  double catch_up_of_step_us_ = 0;  // part of the passes of the step under way
  double owed_us_ = 0;              // time of catching up that was not charged to a step yet
  // The members below belong to the step that begin() began.
  PlainStep step_;
  double us_per_token_ = 0;
};

}  // namespace caption::drafts
