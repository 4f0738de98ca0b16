// engine/internal/batch_builder.h: builds a StepBatch, flat arrays, from the planned sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/internal/sequence.h"
#include "kv/page_table.h"
#include "model/decoder.h"
#include "scheduler/scheduler.h"

namespace caption::engine {

// Reuses its arrays from step to step: a step that is within the sizes given at construction, or no
// larger than an earlier step, allocates nothing.
class BatchBuilder {
 public:
  BatchBuilder(std::int64_t max_tokens, std::int64_t max_sequences, std::int64_t max_pages);

  // Starts a step whose longest page table has `max_pages` pages.
  void begin(std::int64_t max_pages);
  // `pages` must have slots for the sequence's tokens up to the end of the planned ones; `sequence`
  // and `pages` must not change while the batch is in use. For a compressed sequence, registers the
  // rows that the step must watch.
  void add(const scheduler::PlannedSequence& planned, Sequence& sequence,
           const kv::PageTable& pages);
  // Valid until the next begin().
  const model::StepBatch& finish();

 private:
  void add_compression(const scheduler::PlannedSequence& planned, Sequence& sequence);
  void add_vision(std::int64_t begin, std::int64_t end, const Sequence& sequence);

  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> positions_;
  std::vector<std::int32_t> cu_seqlens_;
  std::vector<std::int32_t> context_lens_;
  std::vector<std::int32_t> block_tables_;
  std::vector<std::int32_t> slots_;
  std::vector<std::int32_t> vision_rows_;
  std::vector<std::int32_t> logit_rows_;
  std::vector<model::WatchedRows> watched_;
  std::vector<const std::vector<kernels::KeyClusters>*> clusters_;  // one per sequence
  model::StepBatch batch_;
};

}  // namespace caption::engine
