// engine/internal/batch_builder.h: builds a StepBatch, flat arrays, from the planned sequences. The
// arrays are collected on the host and go to the device as one block, in one copy per step.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "engine/internal/beam_rows.h"
#include "engine/internal/sampled_rows.h"
#include "engine/internal/sequence.h"
#include "kv/page_table.h"
#include "model/decoder.h"
#include "scheduler/scheduler.h"
#include "tensor/copy.h"

namespace caption::engine {

// Reuses its arrays from step to step: a step that is within the sizes given at construction, or no
// larger than an earlier step, allocates nothing.
class BatchBuilder {
 public:
  struct Limits {
    std::int64_t position_axes = 1;  // DecoderSpec::position_axes()
    std::int64_t vocab = 0;
    std::int64_t max_tokens = 0;
    std::int64_t max_sequences = 0;
    std::int64_t max_pages = 0;  // pages of one sequence
    std::int64_t max_logit_rows = 0;
    std::int64_t max_drafts = 0;  // drafts of one sequence
  };
  // The batches are for steps of `stream`.
  BatchBuilder(const Stream& stream, const Limits& limits);

  // Makes steps with max_sequences sequences such as this one, which has not begun its output, be
  // within the sizes. Not between begin() and the end of the step.
  void reserve(const Sequence& sequence);
  // Starts a step whose longest page table has `max_pages` pages.
  void begin(std::int64_t max_pages);
  // `pages` must have slots for the sequence's tokens up to the end of the planned ones; `sequence`
  // and `pages` must not change while the batch is in use. For a compressed sequence, registers the
  // rows that the step must watch.
  void add(const scheduler::PlannedSequence& planned, Sequence& sequence,
           const kv::PageTable& pages);
  // Starts a step that computes these layers alone, for guesses (engine/self_draft.h). `layers`
  // must not change while the batch is in use. With kAlways they are the same in every such step.
  enum class Layers { kThisTime, kAlways };
  void begin_guesses(std::int64_t max_pages, std::span<const std::int32_t> layers, Layers use);
  // Tokens of a sequence, each with a row of logits, that are computed with other pages than its
  // table's.
  struct GuessedTokens {
    std::int64_t first = 0;                // index in the sequence
    std::span<const std::int32_t> tokens;  // >= 1
    std::span<const std::int32_t> table;   // page ids of all tokens up to the last of these
  };
  // Adds the last token of the sequence or of `guesses` after it. The row of logits is for the next
  // token, and is the sequence's.
  void add_guess(const Sequence& sequence, std::span<const std::int32_t> guesses,
                 std::span<const std::int32_t> table);
  // Adds tokens whose rows of logits are copied to the host.
  void add_for_host(const Sequence& sequence, const GuessedTokens& guessed);
  bool leaves_out_layers() const { return !batch_.layers.empty(); }
  std::int64_t num_rows() const { return std::ssize(tokens_); }  // without padding
  std::int64_t max_pages() const { return max_pages_; }
  // Whether each row has logits and none is a vision token, watched, compressed, or changed by an
  // adapter, and the layers are all or always the same: the launches of such a step depend on its
  // shape alone.
  bool is_plain_decode() const;
  // Adds rows of logits, block tables and their pages so that the step has `rows` rows, as many
  // sequences or max_sequences, and tables of `table_pages` pages. The added rows are tokens of a
  // sequence of its own, whose K and V are in page `page`; there are at most kv::kPageTokens.
  void pad(std::int64_t rows, std::int64_t table_pages, std::int64_t page);
  // Valid until the next begin().
  const model::StepBatch& finish(Stream& stream);
  // The rows from which the device chooses tokens, and their arrays on the device; valid as the
  // batch. Shapes: [L, kernels::kRowSamplingBytes] i8, [n] i32.
  const SampledRows& sampled() const { return sampled_; }
  ConstView row_samplings() const { return row_samplings_; }
  ConstView sampled_ids() const { return sampled_ids_; }
  // Likewise for the rows in which the device finds candidates of beams: [L,
  // kernels::kBeamRowBytes] i8, [n] i32.
  const BeamRowList& beams() const { return beams_; }
  ConstView beam_rows() const { return beam_rows_; }
  ConstView beam_ids() const { return beam_ids_; }

 private:
  // Returns the elements that the largest step within the limits has in the block.
  std::int64_t most_elements() const;
  void add_compression(const scheduler::PlannedSequence& planned, Sequence& sequence);
  void add_adapter(const scheduler::PlannedSequence& planned, const Sequence& sequence);
  void add_guessed(const Sequence& sequence, const GuessedTokens& guessed);
  void add_vision(std::int64_t begin, std::int64_t end, const Sequence& sequence);
  void widen_tables(std::int64_t pages);
  void end_sequence(std::int64_t context_tokens);

  std::vector<std::int32_t> tokens_;
  // One array per axis; finish() appends the others to the first.
  std::vector<std::vector<std::int32_t>> positions_;
  std::vector<std::int32_t> cu_seqlens_;
  std::vector<std::int32_t> context_lens_;
  std::vector<std::int32_t> block_tables_;
  std::vector<std::int32_t> slots_;
  std::vector<std::int32_t> vision_rows_;
  std::vector<std::int32_t> logit_rows_;
  std::vector<model::WatchedRows> watched_;
  std::vector<const std::vector<kernels::KeyClusters>*> clusters_;  // one per sequence
  std::vector<model::AdaptedRows> adapted_;
  std::vector<model::AdaptedRows> adapted_logits_;
  SampledRows sampled_;
  ConstView row_samplings_;
  ConstView sampled_ids_;
  BeamRowList beams_;
  ConstView beam_rows_;
  ConstView beam_ids_;
  Layers layers_ = Layers::kAlways;
  std::int64_t max_pages_ = 0;  // pages of the longest table of this step
  Limits limits_;
  std::int64_t max_sampled_ids_ = 0;  // SampledRows::ids() of one sequence
  std::int64_t max_beam_ids_ = 0;     // BeamRowList::ids() of one beam
  Device device_;
  StagedTensor block_;  // i32, all arrays one after the other
  model::StepBatch batch_;
};

}  // namespace caption::engine
