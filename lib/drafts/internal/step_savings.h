// drafts/internal/step_savings.h: what steps cost, what drafts saved of that, and whether they may
// be searched for.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "drafts/draft_counts.h"
#include "drafts/draft_source.h"
#include "drafts/savings_balance.h"
#include "drafts/step_costs.h"

namespace caption::drafts {

// Counts of a step.
struct DraftedStep {
  std::int64_t num_sequences = 0;  // sequences that could have drafts
  bool is_searched = false;        // guesses were searched for
  std::int64_t num_offered = 0;    // drafts
  std::int64_t num_drafts = 0;     // drafts that were computed
  std::int64_t num_further_tokens = 0;
};

// A prompt's rows cost less than as many drafts, which have logits and attend to pages of their
// own, so that the times of steps with prompts say little of those without.
enum class StepKind { kDecoding, kWithPrompts };
inline StepKind kind_of(std::int64_t num_prompt_tokens) {
  return num_prompt_tokens == 0 ? StepKind::kDecoding : StepKind::kWithPrompts;
}

class StepSavings {
 public:
  // The costs of steps of this kind; those of all steps until one without prompts and drafts was
  // measured.
  const StepCosts& costs_of(StepKind kind) const {
    const bool is_known = kind == StepKind::kDecoding && plain_costs_.us(1) > 0;
    return is_known ? decode_costs_ : costs_;
  }
  // What a further token of one of num_sequences is worth; 0 while steps of so many were not
  // measured.
  double worth_us(std::int64_t num_sequences) const;

  // Called once for each step, before guesses are searched for. Whether the step shall have no
  // drafts, so that its cost is known: the first ones, and now and then one.
  bool is_plain_wanted(std::int64_t num_sequences, std::int64_t num_prompt_tokens);
  // Whether drafts for so many sequences rest, because they have lost time.
  bool is_paused(std::int64_t num_sequences) { return balance_of(num_sequences).is_paused(); }

  // Learns what the step cost and what its drafts saved. The draft model's passes took passes_us of
  // its time and the search for guesses search_us, which are no costs of its tokens.
  void observe_step(const DraftedStep& step, const StepLoad& load, std::int64_t passes_us,
                    double search_us);
  // Subtracts `us`, which drafts cost whether a step has any or not, from the time saved in all.
  void add_cost(double us) { totals_.saved_us -= us; }
  const DraftedSteps& totals() const { return totals_; }

 private:
  // Whether drafts pay is a matter of the number of sequences.
  SavingsBalance& balance_of(std::int64_t num_sequences) {
    const auto bits = std::bit_width(static_cast<std::uint64_t>(num_sequences));
    return balances_[std::min(kNumBalances - 1, static_cast<std::size_t>(bits))];
  }
  // What one step of several sequences saves scatters less than what one sequence saves, by the
  // square root of their number, and so is the loss that ends drafts smaller.
  static std::vector<SavingsBalance> make_balances();
  // Learns what a token costs in a step that computes no prompts, and what its drafts saved, unless
  // the draft model guessed.
  void note_decoding(const DraftedStep& step, const StepLoad& load, std::int64_t passes_us,
                     double search_us);
  // Adds what the drafts of a step saved, by the costs of steps, to the totals; to the balance as
  // well if it computed prompts.
  void add_savings(const DraftedStep& step, const StepLoad& load, double search_us);
  // Takes the time of a search that gave no drafts from the balance.
  void charge_search(const DraftedStep& step, double search_us);

  StepCosts costs_;         // costs of all steps
  StepCosts decode_costs_;  // costs of the steps that computed no prompts
  // The costs of steps that compute neither drafts nor prompts: costs_ takes similar sizes for one,
  // so that a jump between a step without drafts and one with few is not seen there. Means, since
  // the times that they are compared to are single ones.
  StepCosts plain_costs_{StepCosts::Average::kMean};
  // [i] is for steps whose number of sequences has i bits, kNumBalances - 1 at most.
  static constexpr std::size_t kNumBalances = 16;
  std::vector<SavingsBalance> balances_ = make_balances();
  double us_per_token_ = 0;  // mean of the latest steps without prompts; 0: none was measured
  std::int64_t num_steps_ = 0;
  std::int64_t num_waits_ = 0;  // steps with prompts that had no drafts for want of a measured cost
  DraftedSteps totals_;
};

}  // namespace caption::drafts
