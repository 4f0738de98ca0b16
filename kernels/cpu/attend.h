// kernels/cpu/attend.h: the inner part of both attentions: a tile of queries against key heads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tier.h"
#include "kernels/internal/attention_limits.h"
#include "tensor/dtype.h"

namespace caption::kernels::cpu {

// Rows of queries that share the keys while they are in the cache, all key heads together.
inline constexpr std::int64_t kTileQueries = 64;

// Positions per block of the online softmax, counted from position 0 whatever the pages or the
// chunk: the fixed places that make a query's result independent of both.
inline constexpr std::int64_t kBlockKeys = 128;

// The keys and values of one sequence under one key head: position p is row p % run_tokens of the
// run pages[p / run_tokens] (or the only run).
struct Keys {
  const std::byte* k = nullptr;  // the head's first element in run 0
  const std::byte* v = nullptr;
  Element element = Element::kF32;
  std::int64_t element_bytes = 0;
  std::int64_t token_stride = 0;  // elements between positions of a run
  std::int64_t run_tokens = 0;
  std::int64_t run_stride = 0;          // elements between runs: run_tokens * token_stride
  const std::int32_t* pages = nullptr;  // null: one run
  // With kI8 what a position's elements are to be multiplied by; the head's first scale in run 0.
  const BF16* k_scales = nullptr;
  const BF16* v_scales = nullptr;
  std::int64_t scale_stride = 0;  // between positions of a run, and times run_tokens between runs
};

// What a row has seen so far: its output, times sum, stands in y.
struct RowState {
  float max = 0;
  float sum = 0;
};

// The rows of a tile: `count` of each of `num_heads` key heads that lie side by side, head after
// head.
struct Queries {
  std::int64_t count = 0;
  std::int64_t num_heads = 1;         // count * num_heads <= kTileQueries
  const float* q[kTileQueries] = {};  // [head_dim] each
  float* y[kTileQueries] = {};        // [head_dim] each
  RowState* state[kTileQueries] = {};
  std::int64_t num_visible[kTileQueries] =
      {};  // [count]: keys [0, num_visible) are seen; at least 1
};

// Of the positions [first_token, first_token + num_tokens) only those count whose cluster is
// selected; of the others all do.
struct Selection {
  std::int64_t first_token = 0;
  std::int64_t num_tokens = 0;
  const std::int32_t* cluster_of = nullptr;  // [num_tokens]
  const bool* is_selected = nullptr;         // by cluster
};

// Blocks of kBlockKeys positions [first, end).
struct BlockRange {
  std::int64_t first = 0;
  std::int64_t end = 0;
};
constexpr std::int64_t num_blocks(std::int64_t num_keys) {
  return (num_keys + kBlockKeys - 1) / kBlockKeys;
}

struct AttendArgs {
  Keys keys;  // of the first head
  std::int64_t head_dim = 0;
  float scale = 0;
  BlockRange blocks;
  // The queries are those of one token and one head, the blocks are all: they hold the positions
  // that count, at least one, in their order. Null: every position counts.
  const Selection* selection = nullptr;
};

// Takes the queries on through a range of blocks; a row begins in the range that starts at 0 and is
// finished in the one that ends at or behind its last visible key. Ranges must follow one another.
// workspace: attend_workspace_bytes(), 64-byte aligned, for this call alone.
std::size_t attend_workspace_bytes(std::int64_t head_dim);
void attend(const Tier& tier, const AttendArgs& args, const Queries& queries, std::byte* workspace);

}  // namespace caption::kernels::cpu
