// kernels/step_scratch.h: the scratch memory of a GPU's stream (Stream::scratch()) that the kernels
// of a decoder's steps take one after another. It is reserved before the first step, so that
// decoding steps allocate nothing and graphs stay valid; products and attention of prompts may
// enlarge it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/stream.h"
#include "kernels/beam_candidates.h"
#include "kernels/paged_attention.h"
#include "kernels/sample_rows.h"

namespace caption::kernels {

// What decides the size of the states of attention, of which each split of a row's keys has one per
// head.
struct AttentionExtents {
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_positions = 0;
};

// Bytes that steps with at most so many rows of logits use: the largest of the states of attention
// and the workspaces of sampling and of beams.
constexpr std::int64_t step_scratch_bytes(std::int64_t rows, std::int64_t vocab,
                                          const AttentionExtents& extents) {
  return std::max(
      {sample_rows_scratch_bytes(rows, vocab), beam_candidates_scratch_bytes(rows, vocab),
       attention_scratch_bytes(rows, extents.num_heads, extents.head_dim, extents.max_positions)});
}

// Allocates them on a GPU.
inline void reserve_step_scratch(Stream& stream, std::int64_t rows, std::int64_t vocab,
                                 const AttentionExtents& extents) {
  if (!stream.device().is_cuda()) return;
  stream.scratch(static_cast<std::size_t>(step_scratch_bytes(rows, vocab, extents)));
}

}  // namespace caption::kernels
