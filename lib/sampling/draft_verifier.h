// sampling/draft_verifier.h: the acceptance test of speculative decoding, for drafts of every
// source.
//
// A step computes the rows of logits after the last known token and after each of k drafts
// d_1 ... d_k. Row i gives the target's distribution p_i of the token after d_1 ... d_i: after
// penalties, n-gram ban, temperature, top-k, top-p and minimum length (sampling/sampler.h), whose
// histories include those drafts. From row 0 on a token is chosen with the random number of its
// place in the output, as without drafts. If it equals the draft in its place, the next row counts;
// otherwise the token takes the draft's place, and the rows after it are void. Stop ids and
// strings, limits and log-probabilities apply to each chosen token as without drafts.
//
// This is the rejection sampling of Leviathan et al., arXiv:2211.17192 (and Chen et al.,
// arXiv:2302.01318), for a proposal with all its mass on one token. They accept a draft d that was
// drawn from a distribution q with probability min(1, p(d) / q(d)) and otherwise draw from
// max(0, p - q), normalised. With q(d) = 1 the first is p(d), and the second p without d,
// renormalised. A token X drawn from p equals d with probability p(d), and given that it does not,
// X has the distribution p(x) / (1 - p(d)) for x != d: the same two steps in one draw. For greedy
// requests p has all its mass on the largest logit.
//
// Equality keeps more than the distribution: since a draft takes part in no draw, the tokens are
// those of the run without drafts, one for one. An acceptance with q would keep the distribution
// only, as it spends random numbers on drafts. What equality costs: a draft model that draws its
// drafts from q has sum_x min(p(x), q(x)) of them accepted; here the model's likeliest token is
// proposed, and p(argmax q) are. For greedy requests that is no difference. Beam searches have no
// drafts: a beam's next token depends on the scores of all beams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace caption::sampling {

// The drafts of one sequence in one step. Not thread-safe.
class DraftVerifier {
 public:
  // Keeps the span.
  explicit DraftVerifier(std::span<const std::int32_t> drafts) : drafts_(drafts) {}

  // The row of logits from which the next token must be chosen: the number of accepted drafts.
  std::int64_t row() const { return static_cast<std::int64_t>(num_accepted_); }
  // Tells the token that was chosen from row(). Returns whether it is the draft in its place: then
  // row() is the next one. Otherwise, and after the last row, the step gives no further token. Must
  // not be called again after it returned false.
  bool accept(std::int32_t chosen) {
    const bool is_equal = num_accepted_ < drafts_.size() && drafts_[num_accepted_] == chosen;
    if (is_equal) ++num_accepted_;
    return is_equal;
  }

 private:
  std::span<const std::int32_t> drafts_;
  std::size_t num_accepted_ = 0;
};

}  // namespace caption::sampling
