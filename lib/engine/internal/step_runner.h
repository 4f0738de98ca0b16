// engine/internal/step_runner.h: a decoder together with what its steps need: pages, index arrays
// and logits. A second decoder over the same page ids has a StepRunner of its own.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/stream.h"
#include "engine/internal/batch_builder.h"
#include "engine/internal/page_memory.h"
#include "engine/options.h"
#include "kv/page_table.h"
#include "model/decoder.h"
#include "tensor/copy.h"

namespace caption::engine {

class StepRunner {
 public:
  // `decoder` and `stream`, of the decoder's device, are borrowed. Reserves the decoder's scratch
  // for the token budget; a longer whole prompt grows it when it runs.
  StepRunner(model::Decoder& decoder, Stream& stream, const EngineOptions& options,
             std::int64_t num_pages);

  const model::DecoderSpec& spec() const { return decoder_.spec(); }
  std::int64_t num_adapters() const { return decoder_.num_adapters(); }
  Stream& stream() const { return stream_; }
  const model::KvPages& pages() const { return memory_.views(); }

  void copy_page(const kv::PageCopy& copy);
  // The builder of the next step's batch.
  BatchBuilder& builder() { return builder_; }
  // Computes the batch and returns its logits [L, vocab] f32 on the host, which may be written and
  // are valid until the next call.
  View run();

 private:
  model::Decoder& decoder_;
  Stream& stream_;
  PageMemory memory_;
  BatchBuilder builder_;
  StagedTensor logits_;
};

}  // namespace caption::engine
