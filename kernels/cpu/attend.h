// kernels/cpu/attend.h: the inner part of both attentions: a tile of queries against one key head.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tier.h"
#include "kernels/internal/attention_limits.h"
#include "tensor/dtype.h"

namespace caption::kernels::cpu {

// Rows of queries that share the keys while they are in the cache: tokens of one sequence, times
// the query heads of one key head.
inline constexpr std::int64_t kTileQueries = 16;

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
  std::int64_t run_stride = 0;          // elements between runs
  const std::int32_t* pages = nullptr;  // null: one run
  // With kI8 what a position's elements are to be multiplied by; the head's first scale in run 0.
  const BF16* k_scales = nullptr;
  const BF16* v_scales = nullptr;
  std::int64_t scale_stride = 0;  // between positions of a run, and times run_tokens between runs
};

struct Queries {
  std::int64_t count = 0;                       // 1 to kTileQueries
  const float* q[kTileQueries] = {};            // [head_dim] each
  float* y[kTileQueries] = {};                  // [head_dim] each
  std::int64_t num_visible[kTileQueries] = {};  // keys [0, num_visible) are seen; at least 1
};

// Of the positions [first_token, first_token + num_tokens) only those count whose cluster is
// selected; of the others all do.
struct Selection {
  std::int64_t first_token = 0;
  std::int64_t num_tokens = 0;
  const std::int32_t* cluster_of = nullptr;  // [num_tokens]
  const bool* is_selected = nullptr;         // by cluster
};

// With a selection the queries are those of one token, and at least one position counts; the
// blocks hold the positions that count, in their order.
void attend(const Tier& tier, const Keys& keys, const Queries& queries, std::int64_t head_dim,
            float scale, const Selection* selection = nullptr);

}  // namespace caption::kernels::cpu
