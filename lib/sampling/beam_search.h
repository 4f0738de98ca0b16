// sampling/beam_search.h: one request's beam search, as transformers >= 4.50 defines it
// (GenerationMixin._beam_search; models.md §8.3; same result, see
// tests/golden/sampling/beams.json):
//
//   lp[b, v]    = processors(log_softmax(logits[b]))[v]              float, sum of exp in double
//   candidates  = the num_beams * max(2, 1 + stop ids) largest of run[b] + lp[b, v]
//   running     = the first num_beams candidates that do not end; run = the plain sum
//   finished    = the best num_beams of: finished so far, and those among the first num_beams
//                 candidates that end (a stop id, or max_new_tokens), scored sum / n^length_penalty
//                 with n output tokens, the stop id counted
//   the end     = max_new_tokens, or num_beams have finished and (early_stopping kYes, or
//                 run[0] / n^length_penalty <= the worst finished; kNever with length_penalty > 0
//                 takes n = max_new_tokens there)
//
// The processors (repetition_penalty, no_repeat_ngram_size, min_new_tokens) act on the
// log-probabilities of each beam with its own history, without renormalisation; a repetition
// penalty therefore always multiplies. Among equal scores the lower beam comes first, then the
// lower id; of equal finished ones the earlier (the source leaves both to torch.topk).
// The source marks what does not count with -1e9, which collides with true scores once
// length_penalty <= -3 or so; here those entries are left out instead, and a beam whose every
// continuation is ruled out ends without a result.
//
// The caller owns K and V. It computes the logits of the running beams, gives them to advance(),
// and arranges the beams' pages as `parents` says before it computes the next tokens:
//   1 row after the prompt, then num_beams rows, in the order of running beams.
// One thread at a time. Memory: 12 bytes * num_beams * (prompt + max_new_tokens), taken at once:
// advance() allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/sampler.h"
#include "sampling/sampling_params.h"

namespace caption::sampling {

inline constexpr std::int32_t kMaxBeams = 64;

// Candidates of one step; the vocabulary must have as many ids.
std::int64_t num_beam_candidates(const SamplingParams& params);

class BeamSearch {
 public:
  // params.num_beams >= 2, validated for `vocab`; keeps copies.
  BeamSearch(const SamplingParams& params, std::span<const std::int32_t> prompt_ids,
             std::int64_t vocab);

  // The running beams of the next step: beam i continues the old beam parents[i] with tokens[i].
  // Empty when the search has ended. When fewer than num_beams continuations are left, the last
  // beams repeat the first and can never win.
  struct Step {
    std::span<const std::int32_t> parents;
    std::span<const std::int32_t> tokens;
  };
  // `logits` [rows, vocab], overwritten; rows is 1 in the first call, then num_beams. Valid until
  // the next call. `sampler` is workspace. Throws Error(kInternal) for NaN or +inf, and when
  // every token is ruled out before any beam has finished.
  Step advance(Sampler& sampler, std::span<float> logits);

  bool is_finished() const { return is_finished_; }
  // Ids of running beam i, prompt included. Before the first advance() all are the prompt.
  std::span<const std::int32_t> running(std::int64_t beam) const;
  // The best finished output; after the end only. Valid while this lives.
  struct Best {
    std::span<const std::int32_t> output_ids;  // the stop id included
    double score = 0;                          // sum of lp / n^length_penalty, a float's value
    bool is_stopped = false;                   // by a stop id; else by max_new_tokens
  };
  Best best() const;

 private:
  struct Candidate {
    float score = 0;
    std::int32_t beam = 0;
    std::int32_t id = 0;
  };
  struct Finished {
    float score = 0;
    bool is_stopped = false;
    std::vector<std::int32_t> output_ids;
  };

  std::int32_t num_output() const { return num_tokens_ - num_prompt_; }
  bool is_stop(std::int32_t id) const;
  bool all_finished() const { return num_finished_ == params_.num_beams; }
  float divisor(std::int32_t num_tokens) const;
  static bool is_better(const Candidate& a, const Candidate& b);
  void collect(std::int32_t beam, std::span<const float> log_probs);
  void finish(const Candidate& candidate);
  bool continue_running();
  bool may_improve() const;

  SamplingParams params_;
  std::int64_t vocab_ = 0;
  std::int32_t num_prompt_ = 0;
  std::int32_t num_tokens_ = 0;            // of every running beam, prompt included
  std::int64_t max_tokens_ = 0;            // prompt + max_new_tokens
  std::vector<float> run_;                 // [num_beams]
  std::vector<std::int32_t> running_ids_;  // [num_beams, max_tokens]
  std::vector<std::int32_t> next_ids_;     // the same, being made
  std::vector<std::int32_t> parents_;      // [num_beams]
  std::vector<std::int32_t> tokens_;       // [num_beams]
  std::vector<Candidate> candidates_;      // the worst on top while collected, then best first
  std::vector<Finished> finished_;         // [num_beams]; the first num_finished_ hold, best first
  std::int32_t num_finished_ = 0;
  bool is_finished_ = false;
};

}  // namespace caption::sampling
