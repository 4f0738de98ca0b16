// bench/internal/planted_model.h: a draft model whose guesses are right with a planted probability.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "bench/internal/run_lengths.h"
#include "drafts/draft_model.h"

namespace caption::bench {

// Passes that a draft model has computed.
struct PassTimes {
  std::int64_t count = 0;
  std::int64_t us = 0;
};

// Replaces the guesses of a model, which computes them: the first ones of a sequence in a step, as
// many as RunLengths gives for `agreement`, by what its output has there, and those after them by
// other tokens. Without an agreement the guesses are the model's own. Used by one thread at a time.
class PlantedModel final : public drafts::DraftModel {
 public:
  // `model` is borrowed. `num_slots` sequences at most have guesses at a time.
  PlantedModel(drafts::DraftModel& model, std::optional<double> agreement, std::int64_t vocab,
               std::size_t num_slots)
      : model_(model), agreement_(agreement), vocab_(vocab) {
    for (std::size_t slot = 0; slot < num_slots; ++slot) {
      const double start = kStartStep * static_cast<double>(slot);
      runs_.emplace_back(agreement.value_or(0), start - std::floor(start));
    }
  }

  // Before the first guess for a sequence: its output, borrowed, and the slot of which it takes the
  // next runs of right guesses.
  void begin(std::int64_t sequence, std::span<const std::int32_t> output, std::size_t slot) {
    planned_.insert_or_assign(sequence, Planned{.output = output, .slot = slot});
  }
  const PassTimes& passes() const { return passes_; }

  drafts::GuessSource source() const override { return model_.source(); }
  std::int64_t prepare(std::span<const drafts::DraftQuery> queries, bool may_compute) override {
    return model_.prepare(queries, may_compute);
  }
  double relative_cost() const override { return model_.relative_cost(); }
  std::int64_t num_missing(std::int64_t sequence,
                           std::span<const std::int32_t> output) const override {
    return model_.num_missing(sequence, output);
  }
  drafts::StepLoad guess(std::span<const drafts::ModelQuery> queries,
                         std::span<drafts::Guess> guesses) override;
  void end(std::int64_t sequence) override {
    planned_.erase(sequence);
    model_.end(sequence);
  }

 private:
  // Between the starts of slots, modulo 1: another ratio than that of RunLengths.
  static constexpr double kStartStep = 0.7548776662466927;

  struct Planned {
    std::span<const std::int32_t> output;
    std::size_t slot = 0;
    std::int64_t run = 0;  // right guesses in the step under way
  };

  void replace(const drafts::ModelQuery& query, drafts::Guess& guess);

  drafts::DraftModel& model_;
  std::optional<double> agreement_;
  std::int64_t vocab_;
  std::vector<RunLengths> runs_;  // the index is the slot
  PassTimes passes_;
  std::unordered_map<std::int64_t, Planned> planned_;
};

}  // namespace caption::bench
