// kernels/step_scratch.h: the scratch memory of a GPU's stream (Stream::scratch()) that the kernels
// of a decoder's steps take one after another. Reserved before the first step, it stays where it
// is, as graphs demand, and no step allocates memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/stream.h"
#include "kernels/sample_rows.h"

namespace caption::kernels {

// What decides the size of the states of attention, of which each split of a row's keys has one per
// head.
struct AttentionExtents {
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_positions = 0;
};

// Bytes of the states of steps with at most `rows` decoded tokens. Steps whose states would take
// more than 256 MiB split no keys.
constexpr std::int64_t attention_states_bytes(std::int64_t rows, const AttentionExtents& extents) {
  constexpr std::int64_t kSplitKeys = 256;
  constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;
  constexpr std::int64_t kFurtherNumbers = 15;  // beside the sum of values: maximum, sum, padding
  const std::int64_t splits = (extents.max_positions + kSplitKeys - 1) / kSplitKeys;
  return std::min(kMostBytes,
                  rows * extents.num_heads * splits * (extents.head_dim + kFurtherNumbers) * 4);
}

// Bytes that steps with at most so many rows of logits use: the larger of the states of attention
// and the workspace of sampling.
constexpr std::int64_t step_scratch_bytes(std::int64_t rows, std::int64_t vocab,
                                          const AttentionExtents& extents) {
  return std::max(sample_rows_scratch_bytes(rows, vocab), attention_states_bytes(rows, extents));
}

// Allocates them on a GPU.
inline void reserve_step_scratch(Stream& stream, std::int64_t rows, std::int64_t vocab,
                                 const AttentionExtents& extents) {
  reserve_sample_rows(stream, rows, vocab);
  if (!stream.device().is_cuda()) return;
  stream.scratch(static_cast<std::size_t>(step_scratch_bytes(rows, vocab, extents)));
}

}  // namespace caption::kernels
