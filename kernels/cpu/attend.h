// kernels/cpu/attend.h: online softmax attention of a tile of queries over a range of keys, used by
// attention() and paged_attention().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tier.h"
#include "kernels/internal/attention_limits.h"
#include "tensor/dtype.h"

namespace caption::kernels::cpu {

// Maximum number of query rows, over all key heads of the tile, that share the gathered keys.
inline constexpr std::int64_t kTileQueries = 64;

// Positions per block of the online softmax. Blocks start at multiples of kBlockKeys counted from
// position 0, independent of page size and chunks, so a query's result depends on neither.
inline constexpr std::int64_t kBlockKeys = 128;

// The keys and values of one sequence for one key head. Position p is row p % run_tokens of the
// page pages[p / run_tokens]; without pages, all positions are one run of consecutive rows.
struct Keys {
  const std::byte* k = nullptr;  // first element of the head in page 0
  const std::byte* v = nullptr;
  Element element = Element::kF32;
  std::int64_t element_bytes = 0;
  std::int64_t token_stride = 0;  // elements between the positions of a run
  std::int64_t run_tokens = 0;
  std::int64_t run_stride = 0;          // elements between runs: run_tokens * token_stride
  const std::int32_t* pages = nullptr;  // null: a single run
  // Only with kI8: the factors of a position's elements; they point to the head's first scale in
  // page 0.
  const BF16* k_scales = nullptr;
  const BF16* v_scales = nullptr;
  // Elements between the scales of adjacent positions of a run; runs are run_tokens times that
  // apart.
  std::int64_t scale_stride = 0;
};

// The state of a query row between blocks. Its y holds the output before the division by `sum`.
struct RowState {
  float max = 0;
  float sum = 0;
};

// The query rows of a tile: `count` rows for each of `num_heads` adjacent key heads, ordered by
// head.
struct Queries {
  std::int64_t count = 0;
  std::int64_t num_heads = 1;         // count * num_heads <= kTileQueries
  const float* q[kTileQueries] = {};  // [head_dim] each
  float* y[kTileQueries] = {};        // [head_dim] each
  RowState* state[kTileQueries] = {};
  // [count]: row m sees the keys [0, num_visible[m]), of these the last AttendArgs::window if there
  // is one; at least 1. It is the same for all heads.
  std::int64_t num_visible[kTileQueries] = {};
};

// Restricts the keys: a position in [first_token, first_token + num_tokens) takes part only if its
// cluster is selected; positions outside that range always do.
struct Selection {
  std::int64_t first_token = 0;
  std::int64_t num_tokens = 0;
  const std::int32_t* cluster_of = nullptr;  // [num_tokens]
  const bool* is_selected = nullptr;         // indexed by cluster
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
  Keys keys;  // keys and values of the first head
  std::int64_t head_dim = 0;
  float scale = 0;
  BlockRange blocks;
  // Null: all positions take part. Otherwise the queries must be those of one token and one key
  // head, and the range must cover all blocks; blocks then consist of the selected positions, of
  // which there must be at least one, in ascending order.
  const Selection* selection = nullptr;
  // Number of keys that a row sees; 0: all. With a selection it must be 0.
  std::int64_t window = 0;
};

// Continues the queries' attention over a range of blocks. A row starts in the range that begins at
// block 0 and is normalised in the range that contains its last visible key; ranges must be
// processed in ascending order. `workspace` is attend_workspace_bytes() long, 64-byte aligned, and
// used by one call at a time.
std::size_t attend_workspace_bytes(std::int64_t head_dim);
void attend(const Tier& tier, const AttendArgs& args, const Queries& queries, std::byte* workspace);

}  // namespace caption::kernels::cpu
