// kernels/step_scratch.h: the scratch memory of a GPU's stream (Stream::scratch()) that the kernels
// of a decoder's steps take one after another. It is reserved before the first step, so that steps
// allocate nothing and graphs stay valid.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

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

// The blocks of a GPU's product of many rows by tiles of 16-bit weights
// (kernels/cuda/tile_gemm.cu). With fewer than `enough` blocks, each slice of K has blocks of its
// own, which leave their sums in the scratch memory.
struct ProductBlocks {
  std::int64_t rows = 0;
  std::int64_t features = 0;
  std::int64_t enough = 0;

  constexpr std::int64_t sum_bytes() const { return rows * features * 4; }
};
inline constexpr ProductBlocks kSmallProductBlocks = {.rows = 64, .features = 64, .enough = 264};
inline constexpr ProductBlocks kLargeProductBlocks = {.rows = 128, .features = 128, .enough = 128};
inline constexpr std::int64_t kProductSliceColumns = 1024;

// The dense layers of one launch: weights [features, columns] with the same input.
struct ProductExtents {
  std::int64_t columns = 0;
  std::array<std::int64_t, 3> features = {};  // 0: no such layer
  bool is_swiglu = false;                     // gate and up [features[0], columns] make one output
};

constexpr std::int64_t divide_rounding_up(std::int64_t size, std::int64_t unit) {
  return (size + unit - 1) / unit;
}

// The most bytes of the sums of slices that products of up to `max_rows` rows leave in blocks of a
// kind. More blocks of rows may be enough, and then leave none.
constexpr std::int64_t slice_sum_bytes(const ProductBlocks& kind, const ProductExtents& extents,
                                       std::int64_t max_rows) {
  const std::int64_t slices = divide_rounding_up(extents.columns, kProductSliceColumns);
  std::int64_t feature_blocks = 0;
  for (const std::int64_t features : extents.features) {
    feature_blocks += divide_rounding_up(features, kind.features / (extents.is_swiglu ? 2 : 1));
  }
  if (slices <= 1 || feature_blocks == 0) return 0;
  const std::int64_t row_blocks =
      std::min(divide_rounding_up(max_rows, kind.rows), (kind.enough - 1) / feature_blocks);
  return feature_blocks * row_blocks * slices * kind.sum_bytes();
}

// The most bytes that products of up to `max_rows` rows by weights of any form take: x rounded to
// 16 bits and the sums of slices; or, by codes, x in packed columns, which are at most twice as
// many (groups of 16 columns in tiles of 32), with a sum for each group of at least 16 columns and
// a scale for each row. Groups of fewer columns, which no format that is known has, may take more.
constexpr std::int64_t product_scratch_bytes(const ProductExtents& extents, std::int64_t max_rows) {
  const std::int64_t columns = divide_rounding_up(extents.columns, 128) * 128;
  const std::int64_t small_rows = std::min(max_rows, kSmallProductBlocks.rows);
  const std::int64_t sums = std::max(slice_sum_bytes(kSmallProductBlocks, extents, small_rows),
                                     slice_sum_bytes(kLargeProductBlocks, extents, max_rows));
  const std::int64_t whole_rows = divide_rounding_up(max_rows, 8) * 8;
  const std::int64_t coded = whole_rows * (columns * 4 + columns / 16 * 4 + 4) + 3 * 64;
  return std::max(max_rows * columns * 2 + 16 + sums, coded);
}

// Bytes that steps with at most `max_logit_rows` rows of logits and `max_tokens` tokens use beside
// their products: the largest of the states of attention and the workspaces of sampling and of
// beams.
constexpr std::int64_t step_scratch_bytes(std::int64_t max_tokens, std::int64_t max_logit_rows,
                                          std::int64_t vocab, const AttentionExtents& extents) {
  return std::max({sample_rows_scratch_bytes(max_logit_rows, vocab),
                   beam_candidates_scratch_bytes(max_logit_rows, vocab),
                   attention_scratch_bytes(std::max(max_tokens, max_logit_rows), extents.num_heads,
                                           extents.head_dim, extents.max_positions)});
}

}  // namespace caption::kernels
