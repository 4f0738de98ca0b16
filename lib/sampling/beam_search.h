// sampling/beam_search.h: beam search of one request, as GenerationMixin._beam_search of
// transformers >= 4.50 (src/transformers/generation/utils.py) defines it; same result, see
// tests/golden/sampling/beams.json:
//
//   lp[b, v]    = processors(log_softmax(logits[b]))[v]              sampling/beam_candidates.h
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
// log-probabilities of each beam with the beam's history, without renormalisation; a repetition
// penalty therefore always multiplies. Among equal scores the lower beam comes first, then the
// lower id; among equal finished beams the earlier one (the reference leaves both to torch.topk).
// The reference marks excluded entries with -1e9, which collides with true scores for
// length_penalty of about -3 or less; here those entries are omitted, and a beam without an allowed
// continuation ends without a result.
//
// The caller owns K and V. It finds the candidates of the running beams (1 row after the prompt,
// then num_beams rows in the order of the beams), passes them to advance(), and rearranges the
// pages of the beams according to `parents` before it computes the next tokens. It needs
// num_beam_candidates() of a row: the candidates above are among these, but for stop ids that
// neither end nor continue a beam. Not thread-safe.
// Memory: 12 bytes * num_beams * (prompt + max_new_tokens), allocated in the constructor: advance()
// allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/beam_candidates.h"
#include "sampling/sampling_params.h"

namespace caption::sampling {

inline constexpr std::int32_t kMaxBeams = 64;

class BeamSearch {
 public:
  // Requires params.num_beams >= 2 and validated parameters. Copies its arguments.
  BeamSearch(const SamplingParams& params, std::span<const std::int32_t> prompt_ids);

  // The running beams of the next step: beam i continues the previous beam parents[i] with
  // tokens[i]. Empty when the search has ended. When fewer than num_beams continuations are left,
  // the last beams repeat the first and cannot win.
  struct Step {
    std::span<const std::int32_t> parents;
    std::span<const std::int32_t> tokens;
  };
  // `candidates` [rows, row_size] are those of each beam with its score(), best first, row_size at
  // least num_beam_candidates(); an id below 0 ends a row that has fewer. rows is 1 in the first
  // call, then num_beams. The result is valid until the next call. Throws Error(kInternal) when
  // every token is excluded before any beam has finished.
  Step advance(std::span<const BeamCandidate> candidates, std::int64_t row_size);

  bool is_finished() const { return is_finished_; }
  // Ids of running beam i, prompt included. Before the first advance() every beam is the prompt.
  std::span<const std::int32_t> running(std::int64_t beam) const;
  // The sum of the log-probabilities of its tokens; -inf for one that repeats another.
  float score(std::int64_t beam) const;
  // The best finished output; only after the end. Valid while this object exists.
  struct Best {
    std::span<const std::int32_t> output_ids;  // includes the stop id
    double score = 0;                          // sum of lp / n^length_penalty, rounded to float
    bool is_stopped = false;                   // ended by a stop id; otherwise by max_new_tokens
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
  void collect(std::int32_t beam, std::span<const BeamCandidate> candidates);
  void finish(const Candidate& candidate);
  bool continue_running();
  bool may_improve() const;

  SamplingParams params_;
  std::int32_t num_prompt_ = 0;
  std::int32_t num_tokens_ = 0;            // length of every running beam, prompt included
  std::int64_t max_tokens_ = 0;            // prompt + max_new_tokens
  std::vector<float> run_;                 // [num_beams]
  std::vector<std::int32_t> running_ids_;  // [num_beams, max_tokens]
  std::vector<std::int32_t> next_ids_;     // next value of running_ids_
  std::vector<std::int32_t> parents_;      // [num_beams]
  std::vector<std::int32_t> tokens_;       // [num_beams]
  std::vector<Candidate> candidates_;      // candidates of all beams, best first
  std::vector<Finished> finished_;  // [num_beams]; the first num_finished_ are valid, best first
  std::int32_t num_finished_ = 0;
  bool is_finished_ = false;
};

}  // namespace caption::sampling
