// engine/internal/sampled_rows.h: the rows of logits of a step from which the device chooses the
// tokens, so that only ids return to the host (kernels/sample_rows.h).
//
// Where that spares copies, the device chooses for every request that needs nothing but tokens. The
// rows of requests with log-probabilities or process_logits are copied to the host; for those of
// beams the device finds the candidates (engine/internal/beam_rows.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/stream.h"
#include "engine/internal/sequence.h"
#include "kernels/sample_rows.h"

namespace caption::engine {

// Reuses its arrays from step to step, so that a step within the reserved sizes allocates nothing.
class SampledRows {
 public:
  struct Range {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };

  SampledRows(const Stream& stream, std::int64_t vocab);

  // Whether the device chooses the tokens of this request.
  bool includes(const Sequence& sequence) const;
  // The most elements that rows() has in a step of `num_rows` rows.
  std::int64_t most_row_elements(std::int64_t num_rows) const;
  // The most elements that the sequence, which has not begun its output, ever adds to ids() in a
  // step with at most `max_drafts` drafts.
  std::int64_t most_ids(const Sequence& sequence, std::int64_t max_drafts) const;
  void reserve(std::int64_t num_rows, std::int64_t num_ids);

  void clear();
  // Adds the next `num_rows` rows of logits of the step: the sequence's last token has the first,
  // and its first drafts have the others if there are several.
  void add(const Sequence& sequence, std::int64_t num_rows);

  // Adds a row of logits for the token after the sequence's tokens and `guesses`.
  void add_guess(const Sequence& sequence, std::span<const std::int32_t> guesses);
  // Adds rows of logits that are copied to the host.
  void add_for_host(std::int64_t num_rows);
  // Adds rows of logits from which no token is chosen: those of beams, and padding.
  void add_unused(std::int64_t num_rows);

  // Whether the device chooses a token of the step.
  bool are_any_chosen() const { return are_any_chosen_; }
  // On a device that chooses tokens a kernels::RowSampling for every row of logits of the step,
  // otherwise empty. Rows from which no token is chosen ask for the largest logit.
  const std::vector<std::int32_t>& rows() const { return rows_; }
  // SampleRows::ids.
  const std::vector<std::int32_t>& ids() const { return ids_; }
  // The rows that are copied to the host, ascending; adjacent ones are one range.
  std::span<const Range> host_rows() const { return host_rows_; }

 private:
  // Adds rows of logits of a sequence whose tokens are followed by `guesses`. `rows` counts from
  // the row of the sequence's last token.
  void add_chosen(const Sequence& sequence, std::span<const std::int32_t> guesses, Range rows);
  void append_unused(std::int64_t num_rows);
  void append(const kernels::RowSampling& row);

  bool is_used_;  // whether the device chooses tokens
  bool are_any_chosen_ = false;
  std::int64_t num_rows_ = 0;
  std::vector<std::int32_t> rows_;
  std::vector<std::int32_t> ids_;
  std::vector<Range> host_rows_;
};

}  // namespace caption::engine
