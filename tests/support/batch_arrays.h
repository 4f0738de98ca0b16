// tests/support/batch_arrays.h: the arrays of a StepBatch as spans, for decoders of tests. Valid
// inside dispatch() on the batch's device, where the host can read them.
#pragma once

#include <cstdint>
#include <span>

#include "model/decoder.h"

namespace caption::testing {

inline std::span<const std::int32_t> span_of(ConstView indices) {
  if (indices.num_elements() == 0) return {};
  return {indices.as<std::int32_t>(), static_cast<std::size_t>(indices.num_elements())};
}

struct BatchArrays {
  explicit BatchArrays(const model::StepBatch& batch)
      : tokens(span_of(batch.tokens)),
        positions(span_of(batch.positions)),
        cu_seqlens(span_of(batch.cu_seqlens)),
        context_lens(span_of(batch.context_lens)),
        block_tables(span_of(batch.block_tables)),
        slots(span_of(batch.slots)),
        vision_rows(span_of(batch.vision_rows)),
        logit_rows(span_of(batch.logit_rows)),
        layers(batch.layers),
        max_pages(batch.block_tables.dim(1)),
        vision(batch.vision) {}

  std::span<const std::int32_t> tokens, positions, cu_seqlens, context_lens;
  std::span<const std::int32_t> block_tables;  // [S * max_pages]
  std::span<const std::int32_t> slots, vision_rows, logit_rows;
  std::span<const std::int32_t> layers;  // on the host
  std::int64_t max_pages;
  const std::vector<ConstView>& vision;
};

}  // namespace caption::testing
