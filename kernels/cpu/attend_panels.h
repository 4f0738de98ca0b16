// kernels/cpu/attend_panels.h: attention of the queries of one head to all keys of a frame, in
// bf16, on tiers with a QueryPanelTier; used by attention().
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

// Largest number of panels of kPanelQueries queries of a call, at least 1. They share the packed
// keys and values; their queries and outputs stay in the second-level cache.
std::int64_t max_query_panels(const Tier& tier, std::int64_t head_dim);

// Strides in elements.
struct PanelAttention {
  const float* q = nullptr;  // [num_queries, head_dim]
  std::int64_t q_stride = 0;
  std::int64_t num_queries = 0;      // at most max_query_panels() * kPanelQueries
  const std::uint16_t* k = nullptr;  // [num_keys, head_dim] bf16
  const std::uint16_t* v = nullptr;
  std::int64_t kv_stride = 0;
  std::int64_t num_keys = 0;
  std::int64_t head_dim = 0;
  float scale = 0;
  float* y = nullptr;  // [num_queries, head_dim]
  std::int64_t y_stride = 0;
};

// The result of a query depends on no other query. `workspace` is attend_panels_workspace_bytes()
// long, 64-byte aligned, and used by one call at a time.
std::size_t attend_panels_workspace_bytes(const Tier& tier, std::int64_t head_dim);
void attend_panels(const Tier& tier, const PanelAttention& args, std::byte* workspace);

}  // namespace caption::kernels::cpu
