// scheduler/step_limits.h: how many drafts and rows of logits a step has at most; the one formula
// by which engines reserve memory and plans predict it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace caption::scheduler {

struct StepLimits {
  std::int64_t max_num_seqs = 1;            // sequences in a step; each beam counts
  std::int64_t max_num_batched_tokens = 1;  // tokens in a step
  std::int64_t max_drafts = 0;              // drafts of a sequence in a step
  std::int64_t max_copied_tokens = 0;       // drafts of a step besides, after prompts

  // Returns the most drafts of all sequences together.
  std::int64_t most_drafts() const { return max_num_seqs * max_drafts + max_copied_tokens; }
  // Returns the most rows of logits: every sequence and every draft has one, and every row belongs
  // to a token of the step.
  std::int64_t most_logit_rows() const {
    return std::min(max_num_seqs + most_drafts(), std::max(max_num_seqs, max_num_batched_tokens));
  }
};

}  // namespace caption::scheduler
