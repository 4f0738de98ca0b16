#include "kernels/beam_candidates.h"

#include <string>

#include "backend/dispatch.h"
#include "kernels/internal/check.h"
#include "kernels/internal/check_logits.h"
#include "kernels/sample_rows.h"

namespace caption::kernels {

void beam_candidates(Stream& stream, const BeamRows& input, View best) {
  const internal::Check check("beam_candidates", stream);
  internal::check_logits(check, input.logits);
  internal::check_rows_of_ids(check, input.rows, {input.logits.dim(0), kBeamRowBytes},
                              alignof(BeamRow), input.ids);
  check.rank("best", best, 3);
  check.same_dtype("best", best, {input.logits.dim(0), best.dim(1), kBeamCandidateBytes},
                   DType::kI8);
  check.dense("best", best);
  if (best.dim(1) < 1 || best.dim(1) > sampling::kMostBeamCandidates) {
    check.fail(std::to_string(best.dim(1)) + " candidates of a row; wanted 1 to " +
               std::to_string(sampling::kMostBeamCandidates));
  }
  internal::check_aligned(check, "best", best, kBeamCandidateBytes);
  dispatch(stream.device(),
           [&](auto device) { impl::beam_candidates(device, stream, input, best); });
}

void check_candidates(std::span<const sampling::BeamCandidate> row, std::int64_t vocab) {
  for (const sampling::BeamCandidate& candidate : row) {
    if (candidate.id >= 0 && candidate.id < vocab) continue;
    if (candidate.id != kNoTokenLeft) check_token(candidate.id, vocab);
    return;
  }
}

}  // namespace caption::kernels
