#include "kernels/beam_candidates.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "base/error.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/refusal.h"
#include "sampling/beam_candidates.h"

namespace caption::kernels::impl {
namespace {

using sampling::BeamCandidate;

sampling::BeamScorer& scorer_for(std::int64_t vocab) {
  thread_local std::unique_ptr<sampling::BeamScorer> scorer;
  if (scorer == nullptr || scorer->vocab() != vocab) {
    scorer = std::make_unique<sampling::BeamScorer>(vocab);
  }
  return *scorer;
}

void find_candidates(const BeamRow& row, std::span<const std::int32_t> ids,
                     std::span<const float> logits, std::span<BeamCandidate> best) {
  const auto range = [ids](std::int32_t first, std::int32_t count) {
    return ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  };
  const sampling::RunningBeam beam{.score = row.score,
                                   .repetition_penalty = row.repetition_penalty,
                                   .no_repeat_ngram_size = row.no_repeat_ngram_size,
                                   .counted_ids = range(row.first_id, row.num_ids),
                                   .ruled_out = range(row.first_banned, row.num_banned)};
  scorer_for(std::ssize(logits)).find(beam, logits, best);
}

}  // namespace

void beam_candidates(Cpu, Stream& stream, const BeamRows& input, View best) {
  const std::int64_t vocab = input.logits.dim(1);
  const auto row_size = static_cast<std::size_t>(best.dim(1));
  const std::span ids(input.ids.as<std::int32_t>(), static_cast<std::size_t>(input.ids.dim(0)));
  cpu::parallel_for(stream, best.dim(0), 16 * vocab, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      BeamRow row;
      std::memcpy(static_cast<void*>(&row), input.rows.as<std::int8_t>() + r * kBeamRowBytes,
                  sizeof row);
      const std::span candidates(
          static_cast<BeamCandidate*>(best.raw()) + r * static_cast<std::int64_t>(row_size),
          row_size);
      std::fill(candidates.begin(), candidates.end(), BeamCandidate{.id = kNoTokenLeft});
      if (row.num_candidates == 0) continue;
      const std::span logits(input.logits.as<float>() + r * input.logits.row_stride(),
                             static_cast<std::size_t>(vocab));
      try {
        find_candidates(row, ids, logits,
                        candidates.first(static_cast<std::size_t>(row.num_candidates)));
      } catch (const Error&) {
        candidates.front().id = cpu::describe_refusal(logits);
      }
    }
  });
}

}  // namespace caption::kernels::impl
