// engine/draft_source.h: speculative decoding: the interface to whatever guesses the next tokens.
//
// The engine computes the guesses ("drafts") of a sequence in the same step as its last token and
// then chooses each token from the model's own logits, as without drafts. A draft that equals the
// chosen token is accepted, and the row after it gives the next token; the first other draft ends
// the step for its sequence. Outputs are therefore identical with any drafts and without them,
// greedy and sampled: a token's random numbers depend on its position alone.
// Sources: Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318. Both accept by
// rejection sampling, which keeps the distribution; accepting equal tokens only also keeps the
// tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace caption::engine {

class DraftSource {
 public:
  virtual ~DraftSource() = default;
  // Appends to `drafts`, which is empty, at most `most` >= 1 ids that may follow `tokens`: the
  // prompt, num_prompt tokens, and the output so far. Ids from the first one outside the vocabulary
  // on are ignored. Called in Engine::step(), in any order of the requests.
  virtual void propose(std::span<const std::int32_t> tokens, std::int64_t num_prompt,
                       std::int64_t most, std::vector<std::int32_t>& drafts) = 0;
};

}  // namespace caption::engine
