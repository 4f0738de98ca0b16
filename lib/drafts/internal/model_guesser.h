// drafts/internal/model_guesser.h: the guesses of the draft model, as many as pay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "drafts/draft_model.h"
#include "drafts/drafter.h"
#include "drafts/internal/proposal.h"
#include "drafts/internal/step_savings.h"
#include "drafts/model_depth.h"

namespace caption::drafts {

class ModelGuesser {
 public:
  // All but the options are borrowed.
  ModelGuesser(const DrafterOptions& options, DraftModel& model, const StepSavings& savings,
               Proposals& proposals, const Acceptance& acceptance);

  // Before the guesses of a step.
  void begin_step();
  // Replaces guesses of the proposals by those of the model. Returns the query whose first guess is
  // a trial, to be computed in any case.
  std::optional<std::size_t> guess(std::span<const DraftQuery> queries,
                                   std::int64_t num_prompt_tokens);
  // The time of the model's passes and preparations since begin_step(), in microseconds.
  std::int64_t passes_us() const { return passes_us_; }

  // Adds the outcome of a sequence's drafts to those since begin_step().
  void observe(const DraftCounts& counts) { step_counts_ += counts; }
  // Learns what the guesses saved in a step, its passes included, before StepSavings learns from
  // it.
  void observe_step(const StepLoad& load);
  void end(std::int64_t sequence) { model_.end(sequence); }

  // Drafter::is_model_resting()
  bool is_resting() const { return has_failed_ || num_idle_steps_ >= Drafter::kStepsToRest; }

 private:
  // A sequence for which the model guesses; parallel to chains_.
  struct Chained {
    std::size_t query = 0;
    std::vector<std::int32_t> followers;  // the tokens of its guesses
  };

  // Whether the model can pay, by the costs of steps, and is not paused. Also lets it prepare its
  // guesses.
  bool may_guess(std::span<const DraftQuery> queries);
  // Begins a chain for each sequence for which nothing was found without the model, or for which
  // the model is likelier right.
  void begin_chains(std::span<const DraftQuery> queries, std::int64_t num_prompt_tokens);
  // Computes one pass of the model for the open chains, or for the chain `only`.
  void extend_chains(std::span<const DraftQuery> queries, std::optional<std::size_t> only);
  // One pass of the model; no guess where it fails.
  StepLoad compute_pass();
  void note_saving(std::int64_t num_tokens, double us);

  const DrafterOptions options_;
  DraftModel& model_;
  const StepSavings& savings_;
  Proposals& proposals_;
  const Acceptance& acceptance_;
  ModelDepth depth_;
  bool has_failed_ = false;  // it is not asked any more
  // Steps since the latest in which the model was asked, without trials.
  std::int64_t num_idle_steps_ = 0;
  double prepare_us_ = 0;  // the longest DraftModel::prepare()
  // The members below belong to the step that begin_step() began.
  std::int64_t passes_us_ = 0;
  std::int64_t num_queries_ = 0;  // sequences, if the model guessed for it; else 0
  DraftCounts step_counts_;
  // guess() keeps these arrays from step to step for their memory alone.
  std::vector<ModelChain> chains_;
  std::vector<Chained> chained_;
  std::vector<ModelQuery> model_queries_;
  std::vector<Guess> guesses_;
  std::vector<std::size_t> extended_;
};

}  // namespace caption::drafts
