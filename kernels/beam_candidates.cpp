#include "kernels/beam_candidates.h"

#include <string>

#include "backend/dispatch.h"
#include "kernels/internal/check.h"
#include "kernels/sample_rows.h"

namespace caption::kernels {

void beam_candidates(Stream& stream, const BeamRows& input, View best) {
  const internal::Check check("beam_candidates", stream);
  check.rank("logits", input.logits, 2);
  const std::int64_t rows = input.logits.dim(0);
  const std::int64_t vocab = input.logits.dim(1);
  if (vocab < 1 || vocab > kMaxSampledVocab) {
    check.fail("a vocabulary of " + std::to_string(vocab) + "; wanted 1 to " +
               std::to_string(kMaxSampledVocab));
  }
  check.f32("logits", input.logits, input.logits.shape());
  check.same_dtype("rows", input.rows, {rows, kBeamRowBytes}, DType::kI8);
  check.dense("rows", input.rows);
  check.rank("ids", input.ids, 1);
  check.i32("ids", input.ids, input.ids.shape());
  check.dense("ids", input.ids);
  check.rank("best", best, 3);
  check.same_dtype("best", best, {rows, best.dim(1), kBeamCandidateBytes}, DType::kI8);
  check.dense("best", best);
  if (best.dim(1) < 1 || best.dim(1) > sampling::kMostBeamCandidates) {
    check.fail(std::to_string(best.dim(1)) + " candidates of a row; wanted 1 to " +
               std::to_string(sampling::kMostBeamCandidates));
  }
  const auto is_aligned = [](ConstView view, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(view.raw()) % bytes == 0;
  };
  if (!is_aligned(input.rows, alignof(BeamRow)) || !is_aligned(best, kBeamCandidateBytes)) {
    check.fail("rows are not aligned to 4 bytes, or best to 8");
  }
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
