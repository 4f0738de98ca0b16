// kernels/cpu/query_panel_tier.h: the inner loops of attention over bf16 keys and values, for
// panels of queries that see the same keys (kernels/cpu/attend_panels.h). AttentionTier holds them.
// Like tier.h this file includes nothing but <cstdint>.
//
// A query is a column of a panel. Its scores, maximum, sum and output stay in one lane, so nothing
// is reduced across lanes, and keys and values are rows:
//   scores [keys, 32]       = keys [keys, depth] * queries [depth / 2, 32, 2]
//   outputs [head_dim, 32] += values [head_dim, keys] * probabilities [keys / 2, 32, 2]
// Panels of bf16 pairs have the layout of packed weights.
#pragma once

#include <cstdint>

namespace caption::kernels::cpu {

inline constexpr std::int64_t kPanelQueries = 32;
// Largest number of keys of a block. With head_dim 64 a panel's scores, probabilities, queries and
// outputs then take 36 KiB, which a first-level cache of 48 KiB holds beside the rows in use.
inline constexpr std::int64_t kPanelBlockKeys = 128;
// Elements between the rows of a block of transposed values. An odd number of cache lines spreads
// the rows over all sets of the first-level cache.
inline constexpr std::int64_t kPanelValueStride = kPanelBlockKeys + 32;
// Rows of blocks and outputs are padded to multiples of this: the products may compute, but do not
// use, the rows of the padding.
inline constexpr std::int64_t kPanelRowMultiple = 16;

struct PackQueriesArgs {
  const float* q = nullptr;  // [count, dim]
  std::int64_t q_stride = 0;
  std::int64_t count = 0;  // number of queries, 1 to 32; the columns without a query become zeros
  std::int64_t dim = 0;
  std::int64_t depth = 0;          // even, at least dim; zeros from dim on
  std::uint16_t* panel = nullptr;  // [depth / 2, 32, 2] bf16
};

struct PackRowsArgs {
  const std::uint16_t* from = nullptr;  // [count, dim] bf16, one row per key
  std::int64_t from_stride = 0;
  std::int64_t count = 0;  // number of keys
  std::int64_t dim = 0;
  std::int64_t depth = 0;  // columns of a packed key; those from dim on are zeros
  // Keys [count, depth]; values [dim, kPanelValueStride], with zeros from `count` to the next
  // multiple of 32.
  std::uint16_t* to = nullptr;
};

// The state of a panel's columns between blocks. A probability that is not normalised is
// 2^(score * scale * log2(e) - reference).
struct ColumnState {
  float reference[kPanelQueries];  // largest exponents; -infinity before the first block
  float sum[kPanelQueries];        // sums of the probabilities before they are rounded to bf16
};

// One block of keys, for all panels of queries of a head.
struct PanelBlockArgs {
  const std::uint16_t* keys = nullptr;    // [count, depth]
  const std::uint16_t* values = nullptr;  // [dim, kPanelValueStride]
  std::int64_t count = 0;                 // number of keys, 1 to kPanelBlockKeys
  std::int64_t dim = 0;
  std::int64_t depth = 0;
  float scale = 0;        // factor of the scores
  bool is_first = false;  // whether the outputs before this block are zeros
  std::int64_t num_panels = 0;
  const std::uint16_t* queries = nullptr;  // [num_panels, depth / 2, 32, 2]
  ColumnState* states = nullptr;           // [num_panels]
  float* outputs = nullptr;                // [num_panels, dim padded to kPanelRowMultiple, 32]
  float* scores = nullptr;                 // working memory [kPanelBlockKeys, 32]
  std::uint16_t* probabilities = nullptr;  // working memory [kPanelBlockKeys / 2, 32, 2]
};

struct WriteOutputsArgs {
  const float* outputs = nullptr;  // [dim, 32]
  const float* sums = nullptr;     // [32]
  std::int64_t count = 0;          // number of queries
  std::int64_t dim = 0;
  float* y = nullptr;  // [count, dim]: each column divided by its sum
  std::int64_t y_stride = 0;
};

// The functions are null in tiers that do not multiply bf16.
struct QueryPanelTier {
  void (*pack_queries)(const PackQueriesArgs& args) = nullptr;
  void (*pack_keys)(const PackRowsArgs& args) = nullptr;
  void (*pack_values)(const PackRowsArgs& args) = nullptr;
  void (*attend_block)(const PanelBlockArgs& args) = nullptr;
  void (*write_outputs)(const WriteOutputsArgs& args) = nullptr;
  // depth is head_dim padded to a multiple of this.
  std::int64_t depth_multiple = 2;
};

}  // namespace caption::kernels::cpu
