// drafts/drafter.h: drafts from an archive of texts, from the sequence itself and from a smaller
// model, as many as pay.
//
// With R sequences and k drafts, of which E are expected to be right, a step of time t(R + k) gives
// R + E tokens. Drafts are taken in descending order of the probability that they and those before
// them are right, as many as make the time per token least; in a step that also computes prompts,
// as many as save more of that time than they add. Where a step is bound by the bytes of the
// weights, a further token is nearly free; where it is bound by arithmetic, none pays.
// Probabilities (Acceptance) and times (StepCosts) are measured while the engine runs.
//
// In the step that ends its prompt, a sequence can have the whole text of the nearest thing as
// drafts: where the things are near-duplicates, that step gives the whole output. As many of its
// tokens are taken as save more time in later steps than they add to this one.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "drafts/acceptance.h"
#include "drafts/draft_model.h"
#include "drafts/draft_source.h"
#include "drafts/followed_guesses.h"
#include "drafts/model_depth.h"
#include "drafts/nearest_texts.h"
#include "drafts/savings_balance.h"
#include "drafts/step_costs.h"
#include "drafts/token_archive.h"

namespace caption::drafts {

enum class Method {
  kNone,
  kNgram,  // what followed the same tokens earlier in the prompt and output
  // What followed them in the archive or in the texts of the nearest things, or as kNgram,
  // whichever was right more often; after a prompt also the whole text of the nearest thing.
  kArchive,
  kModel,  // what the draft model says and nothing else
  kSelf,   // likewise, and the draft model is a part of the target (engine/self_draft.h)
};

struct DrafterOptions {
  Method method = Method::kArchive;
  std::int32_t max_drafts = 8;  // of a sequence in a step, >= 1
  bool is_adaptive = true;      // false: always as many as there are guesses, up to max_drafts
};

// Counted per source; Acceptance's indices.
struct DraftCounts {
  std::array<std::int64_t, kNumGuessSources> computed{};
  std::array<std::int64_t, kNumGuessSources> accepted{};
  std::int64_t further_tokens = 0;  // chosen in a step besides its first one, for each sequence

  DraftCounts& operator+=(const DraftCounts& other) {
    for (std::size_t i = 0; i < computed.size(); ++i) {
      computed[i] += other.computed[i];
      accepted[i] += other.accepted[i];
    }
    further_tokens += other.further_tokens;
    return *this;
  }
};

// Totals of the steps in which a sequence could have drafts.
struct DraftedSteps {
  std::int64_t all = 0;
  std::int64_t with_drafts = 0;
  // What the further tokens would have cost in steps without drafts, less what the drafts added to
  // the steps, both by the measured costs of steps (StepCosts).
  double saved_us = 0;

  DraftedSteps& operator+=(const DraftedSteps& other) {
    all += other.all;
    with_drafts += other.with_drafts;
    saved_us += other.saved_us;
    return *this;
  }
};

// For one engine.
class Drafter final : public DraftSource {
 public:
  // Several drafters may share `archive` and `nearest`, which get the outputs of all; null: none is
  // kept. The draft model, borrowed or null, guesses where it is likelier right than the other
  // sources and its passes pay (drafts/model_depth.h). After an exception other than
  // Error(kUnavailable | kInternal) there is one warning, and it is not asked again.
  Drafter(const DrafterOptions& options, std::shared_ptr<TokenArchive> archive,
          std::shared_ptr<NearestTexts> nearest = nullptr, DraftModel* model = nullptr);

  // What the thing that a sequence is about looks like, and the topic of its text (NearestTexts).
  // Before its first proposal; without this there are no nearest texts.
  void begin(std::int64_t sequence, std::uint64_t topic, const Sketch& look);

  void propose(std::span<const DraftQuery> queries, std::int64_t num_prompt_tokens) override;
  void propose_after_prompts(std::span<const DraftQuery> queries, std::int64_t num_decoding,
                             std::int64_t num_prompt_tokens) override;
  void observe(std::int64_t sequence, std::int64_t num_computed, std::int64_t num_accepted,
               bool was_refused) override;
  void observe_step(const StepLoad& load) override;
  void end(std::int64_t sequence, std::span<const std::int32_t> output) override;

  // Whether the draft model has failed, or was not asked, but for trials, in the latest
  // kStepsToRest steps in which it could have been, or fewer in which it cannot pay: what it reads
  // is then computed for little. True without one.
  bool is_model_resting() const {
    return model_ == nullptr || has_model_failed_ || num_idle_steps_ >= kStepsToRest;
  }

  const DraftCounts& counts() const { return counts_; }
  const DraftedSteps& steps() const { return steps_; }
  // The counts of a sequence that has ended, which are kept until they are taken.
  DraftCounts take_counts(std::int64_t sequence);

  static constexpr std::int64_t kStepsToRest = 128;

 private:
  // What was proposed for a sequence, and how well earlier proposals did.
  struct Proposal {
    std::uint64_t topic = 0;
    std::optional<Sketch> look;
    // The texts that were nearest at the first proposal, and an archive of them.
    std::vector<NearestTexts::Found> found;
    std::unique_ptr<TokenArchive> nearest;
    std::vector<Guess> guesses;
    GuessSource source = GuessSource::kArchive;
    FollowedGuesses of_archive;
    std::int64_t num_computed = 0;  // drafts in the latest step that had any
    // Of the drafts with an outcome: expected to be right, and right.
    double expected = 0;
    double right = 0;
    DraftCounts counts;
  };
  // Counts of the step that is under way.
  struct Step {
    std::int64_t num_sequences = 0;  // sequences that could have drafts
    bool is_searched = false;        // guesses were searched for
    std::int64_t num_offered = 0;    // drafts
    std::int64_t num_drafts = 0;     // drafts that were computed
    std::int64_t num_further_tokens = 0;
  };
  // A guess that may be added to the step.
  struct Candidate {
    double probability = 0;  // that it and those before it are right
    std::size_t query = 0;
  };

  // A sequence for which the draft model guesses; parallel to model_chains_.
  struct Chained {
    std::size_t query = 0;
    std::vector<std::int32_t> followers;  // the tokens of its guesses
  };

  // A prompt's rows cost less than as many drafts, which have logits and attend to pages of their
  // own, so that the times of steps with prompts say little of those without.
  enum class StepKind { kDecoding, kWithPrompts };
  static StepKind kind_of(std::int64_t num_prompt_tokens) {
    return num_prompt_tokens == 0 ? StepKind::kDecoding : StepKind::kWithPrompts;
  }
  // Of all steps, until one without prompts and drafts was measured.
  const StepCosts& costs_of(StepKind kind) const {
    const bool is_known = kind == StepKind::kDecoding && plain_costs_.us(1) > 0;
    return is_known ? decode_costs_ : costs_;
  }

  static std::span<const std::int32_t> output_of(const DraftQuery& query) {
    return query.tokens.subspan(static_cast<std::size_t>(query.num_prompt));
  }
  // Puts other_guesses_ in the place of the proposal's if their first one is likelier right.
  void consider(GuessSource source, Proposal& proposal);
  void find_nearest(Proposal& proposal);
  void find_guesses(const DraftQuery& query, Proposal& proposal);
  // Replaces other_guesses_ by those after the longest context that the archive knows or after a
  // shorter one that more texts have, whichever are expected to be right more often; by the rest of
  // the guesses before, if the output went on with them and the rest is longer than the drafts of
  // the step before.
  void guess_from_archive(std::span<const std::int32_t> output, std::int64_t most,
                          Proposal& proposal);
  // Replaces other_guesses_ by what the nearest text has after `output`, if it begins so.
  void guess_copy(std::span<const std::int32_t> output, std::int64_t most,
                  const Proposal& proposal);
  // The expected number of right ones among the guesses.
  double expected_right(GuessSource source, std::span<const Guess> guesses,
                        const Proposal& proposal) const;
  // Whether the next step shall have no drafts, so that its cost is known.
  bool is_plain_wanted(std::int64_t num_sequences, std::int64_t num_prompt_tokens);
  // What a further token of one of num_sequences is worth; 0 while steps of so many were not
  // measured.
  double worth_us(std::int64_t num_sequences) const;
  void sort_candidates();
  // Offers the tokens of the first num_taken candidates.
  void offer(std::span<const DraftQuery> queries, std::size_t num_taken);
  // Whether the model can pay, by the costs of steps, and is not paused.
  bool may_ask_model(std::span<const DraftQuery> queries);
  // Replaces guesses by those of the draft model. Returns the query whose first guess is a trial,
  // to be computed in any case.
  std::optional<std::size_t> guess_with_model(std::span<const DraftQuery> queries,
                                              std::int64_t num_prompt_tokens);
  void begin_chains(std::span<const DraftQuery> queries, std::int64_t num_prompt_tokens);
  // Tells model_depth_ what the model's guesses saved in a step of `us`, its passes included.
  void note_saving(std::int64_t num_tokens, double us, double passes_us);
  // One pass of the model; no guess where it fails.
  StepLoad ask_model();
  void extend_chains(std::span<const DraftQuery> queries, std::optional<std::size_t> only);
  // Whether drafts pay is a matter of the number of sequences.
  SavingsBalance& balance_of(std::int64_t num_sequences) {
    const auto bits = std::bit_width(static_cast<std::uint64_t>(num_sequences));
    return balances_[std::min(kNumBalances - 1, static_cast<std::size_t>(bits))];
  }
  // How often the sequence's own guesses were right, in terms of what was expected.
  double trust_in(const Proposal& proposal) const;
  double probability(const Proposal& proposal, const Guess& guess) const {
    return probability(proposal.source, proposal, guess);
  }
  double probability(GuessSource source, const Proposal& proposal, const Guess& guess) const;
  // Learns what a token costs in a step that computes no prompts, and what its drafts saved, unless
  // the draft model guessed. The times of passes and of searches are no costs of the step's tokens.
  void note_decoding(const Step& step, const StepLoad& load, std::int64_t spent_us,
                     double search_us);
  // Adds what the drafts of a step saved, by the costs of steps, to the totals; to the balance as
  // well if it computed prompts.
  void add_savings(const Step& step, const StepLoad& load, double search_us);
  // Takes the time of a search that gave no drafts from the balance.
  void charge_search(const Step& step, double search_us);
  void add_candidates(std::size_t query, const Proposal& proposal);
  // How many of the candidates, the likeliest first, save the most time in a step of `size` tokens
  // besides them, when a token is worth `us_per_token`.
  std::size_t best_count(std::int64_t size, double us_per_token, const StepCosts& costs) const;
  std::size_t count_paying(std::int64_t num_sequences, std::int64_t num_prompt_tokens) const;

  const DrafterOptions options_;
  const std::shared_ptr<TokenArchive> archive_;
  const std::shared_ptr<NearestTexts> nearest_;
  Acceptance acceptance_;
  StepCosts costs_;         // of all steps
  StepCosts decode_costs_;  // of those that computed no prompts
  // Of steps that compute neither drafts nor prompts: costs_ takes similar sizes for one, so that a
  // jump between a step without drafts and one with few is not seen there.
  StepCosts plain_costs_;
  // [i]: of steps whose number of sequences has i bits, kNumBalances - 1 at most.
  static constexpr std::size_t kNumBalances = 16;
  std::vector<SavingsBalance> balances_ = std::vector<SavingsBalance>(kNumBalances, {256, 2});
  double us_per_token_ = 0;  // mean of the latest steps without prompts; 0: none was measured
  DraftCounts counts_;
  DraftedSteps steps_;
  Step step_;
  std::unordered_map<std::int64_t, Proposal> proposals_;
  std::unordered_map<std::int64_t, DraftCounts> ended_;  // counts that take_counts() has not taken
  std::int64_t num_proposals_ = 0;
  std::int64_t num_waits_ = 0;  // steps with prompts that had no drafts for want of a measured cost
  std::vector<Guess> other_guesses_;
  std::vector<Guess> frequent_guesses_;
  std::vector<Candidate> candidates_;

  DraftModel* const model_;
  bool has_model_failed_ = false;  // it is not asked any more
  // Steps since the latest in which the model was asked, without trials.
  std::int64_t num_idle_steps_ = 0;
  ModelDepth model_depth_;
  std::int64_t spent_us_ = 0;     // time of the model's passes for the step under way
  double prepare_us_ = 0;         // the longest DraftModel::prepare()
  std::int64_t num_queries_ = 0;  // sequences of the step, if the model guessed for it; else 0
  DraftCounts step_counts_;       // drafts of the step under way
  std::vector<ModelChain> model_chains_;
  std::vector<Chained> chained_;
  std::vector<ModelQuery> model_queries_;
  std::vector<Guess> model_guesses_;
  std::vector<std::size_t> extended_;
};

// The most tokens of a text that can be copied in a step, when an output has at most
// max_new_tokens: their logits, [tokens, vocab] f32, take at most 64 MiB. 0 for a method that
// copies none.
std::int64_t most_copied_tokens(Method method, std::int64_t max_new_tokens, std::int64_t vocab);

}  // namespace caption::drafts
