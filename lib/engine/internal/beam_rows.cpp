#include "engine/internal/beam_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "kernels/beam_candidates.h"
#include "sampling/beam_candidates.h"

namespace caption::engine {
namespace {

// A BeamRow as elements of the step's block of i32.
using BeamRowElements = std::array<std::int32_t, sizeof(kernels::BeamRow) / sizeof(std::int32_t)>;

}  // namespace

std::int64_t BeamRowList::num_row_elements(std::int64_t num_rows) {
  return num_rows * static_cast<std::int64_t>(BeamRowElements().size());
}

std::int64_t BeamRowList::most_ids(const Sequence& sequence) {
  if (!sequence.has_beams()) return 0;
  return std::ssize(sequence.tokens) + sequence.sampling.max_new_tokens +
         std::ssize(sequence.sampling.stop_ids);
}

void BeamRowList::reserve(std::int64_t num_rows, std::int64_t num_ids) {
  rows_.reserve(static_cast<std::size_t>(num_row_elements(num_rows)));
  ids_.reserve(static_cast<std::size_t>(num_ids));
}

void BeamRowList::clear() {
  num_candidates_ = 0;
  rows_.clear();
  ids_.clear();
}

void BeamRowList::add(const Sequence& sequence, std::int32_t branch) {
  const std::int64_t num_candidates = sampling::num_beam_candidates(sequence.sampling);
  num_candidates_ = std::max(num_candidates_, num_candidates);
  const float score = sequence.beams.has_value() ? sequence.beams->score(branch) : 0;
  const sampling::RunningBeam beam = sampling::running_beam(
      sequence.sampling, {.ids = sequence.ids_of(branch), .num_prompt = sequence.num_prompt},
      score);
  const auto append = [this](std::span<const std::int32_t> ids) {
    const auto first = static_cast<std::int32_t>(ids_.size());
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    return first;
  };
  const kernels::BeamRow row{.score = beam.score,
                             .repetition_penalty = beam.repetition_penalty,
                             .no_repeat_ngram_size = beam.no_repeat_ngram_size,
                             .first_id = append(beam.counted_ids),
                             .num_ids = static_cast<std::int32_t>(beam.counted_ids.size()),
                             .first_banned = append(beam.ruled_out),
                             .num_banned = static_cast<std::int32_t>(beam.ruled_out.size()),
                             .num_candidates = static_cast<std::int32_t>(num_candidates)};
  const auto elements = std::bit_cast<BeamRowElements>(row);
  rows_.insert(rows_.end(), elements.begin(), elements.end());
}

void BeamRowList::add_unused(std::int64_t num_rows) {
  const auto elements = std::bit_cast<BeamRowElements>(kernels::BeamRow());
  for (std::int64_t row = 0; row < num_rows; ++row) {
    rows_.insert(rows_.end(), elements.begin(), elements.end());
  }
}

}  // namespace caption::engine
