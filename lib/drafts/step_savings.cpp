#include "drafts/internal/step_savings.h"

#include <algorithm>
#include <cmath>

namespace caption::drafts {
namespace {

constexpr std::int64_t kStepsPerPlainStep = 128;
// Steps of a number of sequences have no drafts until so many of them were measured without, which
// steps with prompts wait for no longer than kMostWaits of them.
constexpr int kPlainSteps = 3;
constexpr std::int64_t kMostWaits = 32;
constexpr double kWeightOfStep = 1.0 / 16;  // a step's weight in the mean time of a token
constexpr std::int64_t kFirstPauseSteps = 256;
// The loss of a single sequence that ends drafts, in steps without drafts.
constexpr double kMostLossSteps = 2;
// A step of n sequences counts as at most 1 + kMostOutlier / sqrt(n) times the usual time of its
// size.
constexpr double kMostOutlier = 1;
// A search counts as at most this share of a step without drafts.
constexpr double kMostSearch = 0.25;

}  // namespace

std::vector<SavingsBalance> StepSavings::make_balances() {
  std::vector<SavingsBalance> balances;
  double num_sequences = 1;
  for (std::size_t i = 0; i < kNumBalances; ++i) {
    balances.emplace_back(kFirstPauseSteps, kMostLossSteps / std::sqrt(num_sequences));
    if (i > 0) num_sequences *= 2;
  }
  return balances;
}

bool StepSavings::is_plain_wanted(std::int64_t num_sequences, std::int64_t num_prompt_tokens) {
  if (++num_steps_ % kStepsPerPlainStep == 0) return true;
  if (plain_costs_.has_measured(num_sequences, kPlainSteps)) return false;
  return num_prompt_tokens == 0 || ++num_waits_ <= kMostWaits;
}

double StepSavings::worth_us(std::int64_t num_sequences) const {
  const StepCosts& costs = costs_of(StepKind::kDecoding);
  if (!costs.has_measured(num_sequences, 1)) return 0;
  const double plain_us = costs.us(num_sequences) / static_cast<double>(num_sequences);
  return us_per_token_ > 0 ? std::min(us_per_token_, plain_us) : plain_us;
}

void StepSavings::observe_step(const DraftedStep& step, const StepLoad& load,
                               std::int64_t passes_us, double search_us) {
  costs_.observe(load.num_tokens, static_cast<double>(load.us - passes_us) - search_us);
  balance_of(step.num_sequences).count_step();
  note_decoding(step, load, passes_us, search_us);
  if (step.num_sequences == 0 && step.num_drafts == 0) return;
  ++totals_.all;
  totals_.saved_us -= static_cast<double>(passes_us) + search_us;
  if (step.num_drafts == 0) return charge_search(step, search_us);
  ++totals_.with_drafts;
  add_savings(step, load, search_us);
}

void StepSavings::charge_search(const DraftedStep& step, double search_us) {
  if (!step.is_searched) return;
  const double plain_us = plain_costs_.us(step.num_sequences);
  balance_of(step.num_sequences).observe(-std::min(search_us, kMostSearch * plain_us), plain_us);
}

void StepSavings::add_savings(const DraftedStep& step, const StepLoad& load, double search_us) {
  const std::int64_t num_plain = std::max<std::int64_t>(1, step.num_sequences);
  const double plain_us = costs_of(StepKind::kDecoding).us(num_plain);
  const bool had_prompts = load.num_tokens > step.num_sequences + step.num_drafts;
  const StepCosts& costs = costs_of(had_prompts ? StepKind::kWithPrompts : StepKind::kDecoding);
  double us_per_token = plain_us / static_cast<double>(num_plain);
  if (had_prompts && us_per_token_ > 0) us_per_token = std::min(us_per_token, us_per_token_);
  const double added_us = costs.us(load.num_tokens) - costs.us(load.num_tokens - step.num_drafts);
  const double saved_us = static_cast<double>(step.num_further_tokens) * us_per_token - added_us;
  totals_.saved_us += saved_us;
  if (!had_prompts) return;
  balance_of(step.num_sequences)
      .observe(saved_us - std::min(search_us, kMostSearch * plain_us), plain_us);
}

void StepSavings::note_decoding(const DraftedStep& step, const StepLoad& load,
                                std::int64_t passes_us, double search_us) {
  if (step.num_sequences == 0 || load.num_tokens != step.num_sequences + step.num_drafts) return;
  const auto num_sequences = static_cast<double>(step.num_sequences);
  const auto num_further = static_cast<double>(step.num_further_tokens);
  const auto us = static_cast<double>(load.us);
  decode_costs_.observe(load.num_tokens, us - static_cast<double>(passes_us) - search_us);
  const double per_token = us / (num_sequences + num_further);
  us_per_token_ += (us_per_token_ == 0 ? 1 : kWeightOfStep) * (per_token - us_per_token_);
  if (step.num_drafts == 0) return plain_costs_.observe(load.num_tokens, us - search_us);
  const double plain_us = plain_costs_.us(step.num_sequences);
  if (passes_us > 0 || plain_us == 0) return;
  const double most_times = 1 + kMostOutlier / std::sqrt(num_sequences);
  const double usual_us = std::min(us, most_times * decode_costs_.us(load.num_tokens));
  balance_of(step.num_sequences)
      .observe(plain_us * (1 + num_further / num_sequences) - usual_us, plain_us);
}

}  // namespace caption::drafts
