// engine/internal/step_runner.h: a decoder together with what its steps need: pages, index arrays
// and logits. A draft decoder has a StepRunner of its own; a self-draft uses that of its engine,
// and pages besides those of the pool. Decode steps on a device with graphs are launched as graphs
// (engine/internal/step_graphs.h), unless the stream has a profile, which times operations one by
// one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "backend/stream.h"
#include "engine/internal/batch_builder.h"
#include "engine/internal/page_memory.h"
#include "engine/internal/step_graphs.h"
#include "engine/options.h"
#include "kv/page_table.h"
#include "model/decoder.h"
#include "sampling/beam_candidates.h"
#include "tensor/copy.h"

namespace caption::engine {

// What a step gave for the rows of logits of one request.
struct RequestRows {
  std::int64_t count = 0;
  // The tokens that the device chose [count], unchecked: kernels::check_token(). Empty: the host
  // chooses.
  std::span<const std::int32_t> tokens;
  // The candidates of beams [count, n], unchecked: kernels::check_candidates().
  std::span<const sampling::BeamCandidate> candidates;
  // [count, vocab] on the host, which may be written; unspecified where there are tokens or
  // candidates.
  std::span<float> logits;
};

class StepRunner {
 public:
  // `decoder` and `stream`, of the decoder's device, are borrowed. Reserves the decoder's scratch
  // for the token budget; a longer whole prompt grows it when it runs. `num_pages` are the pool's.
  StepRunner(model::Decoder& decoder, Stream& stream, const EngineOptions& options,
             std::int64_t num_pages);

  const model::DecoderSpec& spec() const { return decoder_.spec(); }
  std::int64_t num_adapters() const { return decoder_.num_adapters(); }
  Stream& stream() const { return stream_; }
  const model::KvPages& pages() const { return memory_.views(); }
  const PageMemory& memory() const { return memory_; }

  // Bytes of the weights that a step over these layers reads (model/decoder.h).
  std::int64_t step_weight_bytes(std::span<const std::int32_t> layers) const {
    return decoder_.step_weight_bytes(layers);
  }
  // The most rows of logits in a step; a token has at most one.
  std::int64_t most_rows() const { return most_rows_; }
  // The first of the num_guess_pages(options) pages that no table has.
  std::int64_t first_guess_page() const { return padding_page_ + (has_graphs_ ? 1 : 0); }

  void copy_page(const kv::PageCopy& copy);
  // The builder of the next step's batch.
  BatchBuilder& builder() { return builder_; }
  // Makes room for steps with such a sequence (BatchBuilder::reserve()).
  void reserve(const Sequence& sequence);
  // Computes the batch. `meanwhile` is called when the device has its work, before the host waits.
  void run(const std::function<void()>& meanwhile);
  // Rows [first, first + count) of the batch's logits, of one request; valid until the next run().
  RequestRows rows(const Sequence& sequence, std::int64_t first, std::int64_t count);
  // The logits of rows that belong to no request; all must have been copied to the host.
  std::span<float> host_logits(std::int64_t first, std::int64_t count);
  // Steps whose work was launched as a graph.
  std::int64_t num_graph_steps() const { return graphs_.num_graph_launches(); }

 private:
  // Pads the batch; returns its shape, or nullopt if it is launched kernel by kernel.
  std::optional<StepShape> pad();
  // Gives the stream the computation of logits, and of tokens and candidates that the device finds.
  void launch(const model::StepBatch& batch);
  void download_results(std::int64_t num_rows);

  model::Decoder& decoder_;
  Stream& stream_;
  bool has_graphs_;
  // Holds K and V of the rows that pad a step; with has_graphs_, a page more than the pool's.
  std::int64_t padding_page_;
  std::int64_t most_rows_;
  PageMemory memory_;
  BatchBuilder builder_;
  StepGraphs graphs_;
  StagedTensor logits_;  // [L, vocab] f32
  StagedTensor tokens_;  // [L] i32
  // [n, kBeamCandidateBytes] i8, those of each row of logits that has any; n = 0 as long as no
  // sequence has beams.
  StagedTensor candidates_;
};

}  // namespace caption::engine
