// drafts/draft_source.h: speculative decoding: the interface to whatever guesses the next tokens.
//
// The engine computes the guesses ("drafts") of a sequence in the same step as its last token and
// then chooses each token from the model's own logits, as without drafts. A draft that equals the
// chosen token is accepted, and the row after it gives the next token; the first other draft ends
// the step for its sequence (sampling/draft_verifier.h). Outputs are therefore identical with any
// drafts and without them, greedy and sampled.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace caption::drafts {

// A sequence that can have drafts in the next step.
struct DraftQuery {
  std::int64_t sequence = 0;  // one engine's number of the sequence, until end()
  // The prompt, num_prompt tokens, and the output so far, at least one token in all.
  std::span<const std::int32_t> tokens = {};
  std::int64_t num_prompt = 0;
  std::int64_t most = 0;  // >= 1
  // Empty; receives at most `most` ids that may follow `tokens`. Ids from the first one outside the
  // vocabulary on are ignored. Not null.
  std::vector<std::int32_t>* drafts = nullptr;
};

// The size of a step and what it cost.
struct StepLoad {
  std::int64_t num_tokens = 0;  // tokens of all sequences
  std::int64_t us = 0;          // wall time
  double proposing_us = 0;      // the part of it that the source's proposals took
  double ending_us = 0;         // the part of it that the source's end() took
};

// An engine calls these functions from one thread at a time; several engines have several sources.
class DraftSource {
 public:
  virtual ~DraftSource() = default;
  // `queries` are all sequences that can have drafts in the next step, which computes one token of
  // each besides them, and up to `num_prompt_tokens` tokens of prompts. It may compute fewer drafts
  // than are proposed.
  virtual void propose(std::span<const DraftQuery> queries, std::int64_t num_prompt_tokens) = 0;
  // `queries` are the sequences whose prompts the next step may complete, or what a preempted
  // sequence had computed before, so that drafts can follow their last token; not all of them need
  // be in the step. The step computes up to `num_prompt_tokens` tokens of the prompts, and one
  // token of each of `num_decoding` other sequences. Called after propose(), which is not called
  // for a step without any decoding sequence.
  virtual void propose_after_prompts(std::span<const DraftQuery> /*queries*/,
                                     std::int64_t /*num_decoding*/,
                                     std::int64_t /*num_prompt_tokens*/) {}
  // A step computed the first `num_computed` >= 1 drafts of a sequence, and the first
  // `num_accepted` of these were right. When fewer were, and `was_refused`, the next one was wrong;
  // otherwise the output ended before it.
  virtual void observe(std::int64_t /*sequence*/, std::int64_t /*num_computed*/,
                       std::int64_t /*num_accepted*/, bool /*was_refused*/) {}
  // A step has taken so long. Not called for one that failed.
  virtual void observe_step(const StepLoad& /*load*/) {}
  // A sequence has ended. `output` is empty when it was cancelled or failed.
  virtual void end(std::int64_t /*sequence*/, std::span<const std::int32_t> /*output*/) {}
};

}  // namespace caption::drafts
