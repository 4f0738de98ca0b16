// kernels/beam_candidates.h: the best continuations of the beams of a step, from their rows of
// logits on the device, so that only a few ids and scores per row return to the host. Scores, their
// order, ties and what is refused are those of sampling/beam_candidates.h, which the CPU runs with
// a workspace per thread; a GPU gives the same bits. A row's candidates do not depend on the other
// rows.
#pragma once

#include <cstdint>
#include <span>

#include "backend/stream.h"
#include "sampling/beam_candidates.h"
#include "tensor/tensor.h"

namespace caption::kernels {

// The beam of a row; valid parameters as sampling::validate() demands. The ids are ranges of
// BeamRows::ids.
struct BeamRow {
  float score = 0;  // the beam's sum of log-probabilities; -inf: the beam has no candidates
  float repetition_penalty = 1;
  std::int32_t no_repeat_ngram_size = 0;
  std::int32_t first_id = 0;  // where the history begins that the penalties count
  std::int32_t num_ids = 0;
  std::int32_t first_banned = 0;  // ids in the vocabulary that are ruled out
  std::int32_t num_banned = 0;
  std::int32_t num_candidates = 0;  // to be found; 0: the row belongs to no beam and is not read
};
inline constexpr std::int64_t kBeamRowBytes = sizeof(BeamRow);
inline constexpr std::int64_t kBeamCandidateBytes = sizeof(sampling::BeamCandidate);

struct BeamRows {
  ConstView logits;  // [B, V] f32, rows may be strided; 1 <= V < 2^20
  ConstView rows;    // [B, kBeamRowBytes] i8: a BeamRow each, 4-byte aligned
  ConstView ids;     // [n] i32; no penalty counts ids outside the vocabulary, which stand for
                     // vision tokens
};

// Writes to best [B, n, kBeamCandidateBytes] i8, 8-byte aligned, n <= kMostBeamCandidates, a
// BeamCandidate each: of every row the num_candidates <= n best, then ids below 0. The first id of
// a row with a logit that is NaN or +inf is what check_candidates() says. Throws Error(kInternal)
// when shapes or dtypes disagree.
void beam_candidates(Stream& stream, const BeamRows& input, View best);

// Bytes of device memory, besides logits, that beam_candidates() of a GPU uses meanwhile: two bits
// per id of each row.
constexpr std::int64_t beam_candidates_scratch_bytes(std::int64_t rows, std::int64_t vocab) {
  constexpr std::int64_t kWordBytes = 4;
  return kWordBytes * rows * 2 * ((vocab + 31) / 32);
}

// Throws as sampling::BeamScorer::find() when the row's first id says that a logit is NaN or +inf
// (nan_at() and infinity_at() of kernels/sample_rows.h), and Error(kInternal) for an id that is not
// in the vocabulary.
void check_candidates(std::span<const sampling::BeamCandidate> row, std::int64_t vocab);

namespace impl {
void beam_candidates(Cpu device, Stream& stream, const BeamRows& input, View best);
void beam_candidates(Cuda device, Stream& stream, const BeamRows& input, View best);
}  // namespace impl

}  // namespace caption::kernels
