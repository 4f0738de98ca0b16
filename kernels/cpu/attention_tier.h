// kernels/cpu/attention_tier.h: the inner loops of attention that have one version per instruction
// set; a member of Tier (kernels/cpu/tier.h). Like tier.h it includes nothing from std but
// <cstdint>.
//
// Keys and values are gathered from their pages into panels of kPanelColumns columns, so that both
// products of attention are matrix products with panels, as in dense layers:
//   scores   a column is a key, the depth is head_dim
//   outputs  a column is a dimension of the head, the depth is the number of keys
// A panel of f32 is [depth, 32]. A panel of bf16 pairs is [ceil(depth / 2), 32, 2], the layout of
// packed weights, which Tier::panel_gemm multiplies.
#pragma once

#include <cstdint>

#include "kernels/cpu/query_panel_tier.h"

namespace caption::kernels::cpu {

// The rows to gather: row j starts slots[j] * row_bytes after base.
struct PackArgs {
  const void* base = nullptr;
  std::int64_t row_bytes = 0;
  const std::int64_t* slots = nullptr;  // [count]
  std::int64_t count = 0;               // number of rows (keys)
  std::int64_t dim = 0;                 // elements per row
  // Every element is written. In value panels, missing dimensions and the missing second key of a
  // last pair are zeros. In key panels, the columns without a key hold any finite numbers or copies
  // of the last key.
  void* panels = nullptr;
  // Rows to prefetch for the next call, slots [count], or null: the prefetches overlap with the
  // arithmetic of this call.
  const void* next_base = nullptr;
  const std::int64_t* next_slots = nullptr;
};

struct FloatPanelArgs {
  const float* a = nullptr;  // [m, depth]
  std::int64_t a_stride = 0;
  const float* panels = nullptr;  // [num_panels, depth, 32]
  std::int64_t depth = 0;
  std::int64_t num_panels = 0;
  float* c = nullptr;  // [m, num_panels * 32]
  std::int64_t c_stride = 0;
  std::int64_t m = 0;
};

// The scores of one row for one block of keys.
struct SoftmaxArgs {
  float* scores = nullptr;         // [count], replaced by probabilities that are not normalised
  const float* factors = nullptr;  // [num_visible], factors of the scores
  // [num_visible] or null: factors of the probabilities, applied after these are summed.
  const float* v_scales = nullptr;
  std::int64_t num_visible = 0;  // at least 1; keys beyond it get probability 0
  std::int64_t count = 0;
  float max = 0;  // maximum score of the blocks before
};
struct SoftmaxResult {
  float max;  // maximum score of this block and those before
  float sum;  // sum of exp(score - max) over this block
};

struct PagePacker {
  void (*keys)(const PackArgs& args) = nullptr;    // [ceil(count / 32)] panels, depth dim
  void (*values)(const PackArgs& args) = nullptr;  // [ceil(dim / 32)] panels, depth count
  bool to_pairs = false;  // whether panels are of bf16 pairs; otherwise of f32
};

// Most queries of a key head for which FewQueries has products, and the rows that it reads at a
// time: all heads of these before the next ones, so that memory is read in the order in which pages
// lie in it.
inline constexpr std::int64_t kFewQueries = 6;
inline constexpr std::int64_t kFewKeys = 16;

// The products of m queries for each of several key heads with rows in which these heads are
// adjacent, h * dim elements after the row's beginning.
struct FewQueriesArgs {
  const void* base = nullptr;  // row j starts slots[j] * row_bytes after it
  std::int64_t row_bytes = 0;
  const std::int64_t* slots = nullptr;  // [count]
  std::int64_t count = 0;
  std::int64_t num_heads = 0;
  std::int64_t dim = 0;
  // [num_heads * m, a_stride] in f32, or where panels are of pairs in bf16, padded with a zero to a
  // pair.
  const void* a = nullptr;
  std::int64_t a_stride = 0;
  float* c = nullptr;  // [num_heads * m, c_stride], the stride at least the next multiple of 16
  std::int64_t c_stride = 0;
  std::int64_t m = 0;  // 1 to kFewQueries
  // The rows that are read after these, of which the first kFewKeys are prefetched.
  const void* next_base = nullptr;
  const std::int64_t* next_slots = nullptr;  // [next_count]
  std::int64_t next_count = 0;
};

// Products without panels, the same bits as with them.
struct FewQueries {
  void (*score)(const FewQueriesArgs& args) = nullptr;  // c[h m, j] = a[h m] . row j of head h
  void (*weigh)(const FewQueriesArgs& args) = nullptr;  // c[h m, d] = sum over j of a[h m, j] row j
};

struct AttentionTier {  // NOLINT(cppcoreguidelines-pro-type-member-init): as Tier
  PagePacker pack[4];   // indexed by Element
  // c = a * panels^T; every sum runs over the depth in ascending order.
  void (*float_panel_gemm)(const FloatPanelArgs& args);
  SoftmaxResult (*softmax)(const SoftmaxArgs& args);
  // y = y * factor + x
  void (*scale_add)(float* y, float factor, const float* x, std::int64_t n);
  QueryPanelTier query_panels;
  FewQueries few_queries[4];  // indexed by Element; null where panels are used for few queries, too
};

// Reference implementation in plain loops.
const AttentionTier& reference_attention();

}  // namespace caption::kernels::cpu
