// engine/internal/beam_rows.h: the rows of logits of a step that belong to beams; in them the
// device finds the candidates of each beam (kernels/beam_candidates.h).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/internal/sequence.h"

namespace caption::engine {

// Reuses its arrays from step to step, so that a step within the reserved sizes allocates nothing.
class BeamRowList {
 public:
  // Elements that rows() has in a step of `num_rows` rows with beams.
  static std::int64_t num_row_elements(std::int64_t num_rows);
  // The most elements that a beam of the sequence ever adds to ids() in a step; 0 for a sequence
  // without beams.
  static std::int64_t most_ids(const Sequence& sequence);
  void reserve(std::int64_t num_rows, std::int64_t num_ids);

  void clear();
  // Adds the row of logits after the last token of a beam, which is `branch` of the sequence.
  void add(const Sequence& sequence, std::int32_t branch);
  // Adds rows of logits that belong to no beam.
  void add_unused(std::int64_t num_rows);

  // Candidates of a row that the step needs; 0 in a step without beams.
  std::int64_t num_candidates() const { return num_candidates_; }
  // A kernels::BeamRow for every row of logits of the step; empty in a step without beams.
  const std::vector<std::int32_t>& rows() const { return num_candidates_ > 0 ? rows_ : none_; }
  // BeamRows::ids.
  const std::vector<std::int32_t>& ids() const { return ids_; }

 private:
  std::int64_t num_candidates_ = 0;
  std::vector<std::int32_t> rows_;
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> none_;
};

}  // namespace caption::engine
