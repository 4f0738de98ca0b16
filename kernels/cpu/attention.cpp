// Attention of vision towers on the CPU.
//
// Traffic   4 * tokens * heads * head_dim numbers; the scores of a tile stay in the cache, so the
//           bound is arithmetic: 4 * tokens^2 * heads * head_dim operations per frame.
// Measured  577 tokens, 16 heads of 64, f32: 7.65 ms, 0.18 TFLOP/s, 3 % of the 6.0 TFLOP/s of bf16
//           tiles. Two vCPUs with AMX, 2026-11-22, `caption-cli bench --kernels --shape
//           clip-l-336`.
#include "kernels/attention.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cpu/attend.h"
#include "kernels/cpu/attend_items.h"
#include "kernels/cpu/attend_panels.h"
#include "kernels/cpu/select_tier.h"
#include "tensor/dtype.h"

namespace caption::kernels::impl {
namespace {

std::int64_t num_keys(const AttentionInput& input) {
  return input.kv_len == 0 ? input.seq_len : input.kv_len;
}

// Rows [first_query, first_query + kTileQueries) of a frame, for one head.
struct Tile {
  std::int64_t frame = 0;
  std::int64_t first_query = 0;
  std::int64_t head = 0;
};

void attend_tile(const cpu::Tier& tier, const AttentionInput& input, View y, const Tile& tile,
                 std::byte* workspace) {
  const auto [frame, first_query, head] = tile;
  const std::int64_t kv_len = num_keys(input);
  const std::int64_t kv_head = head / (y.dim(1) / input.k.dim(1));
  const std::int64_t head_dim = y.dim(2);
  const auto element_bytes = static_cast<std::int64_t>(dtype_size_bytes(input.k.dtype()));
  const std::int64_t first_key =
      (frame * kv_len * input.k.row_stride() + kv_head * head_dim) * element_bytes;
  cpu::RowState states[cpu::kTileQueries];
  cpu::Queries queries;
  queries.count = std::min(cpu::kTileQueries, input.seq_len - first_query);
  for (std::int64_t m = 0; m < queries.count; ++m) {
    const std::int64_t row = frame * input.seq_len + first_query + m;
    queries.q[m] = input.q.as<float>() + row * input.q.row_stride() + head * head_dim;
    queries.y[m] = y.as<float>() + row * y.row_stride() + head * head_dim;
    queries.state[m] = &states[m];
    queries.num_visible[m] = kv_len;
  }
  cpu::attend(tier,
              {.keys = {.k = static_cast<const std::byte*>(input.k.raw()) + first_key,
                        .v = static_cast<const std::byte*>(input.v.raw()) + first_key,
                        .element = cpu::element_of(input.k.dtype()),
                        .element_bytes = element_bytes,
                        .token_stride = input.k.row_stride(),
                        .run_tokens = kv_len},
               .head_dim = head_dim,
               .scale = input.scale,
               .blocks = {.first = 0, .end = cpu::num_blocks(kv_len)}},
              queries, workspace);
}

void attend_in_tiles(const cpu::Tier& tier, Stream& stream, const AttentionInput& input, View y) {
  const std::int64_t seq_len = input.seq_len;
  const std::int64_t heads = y.dim(1);
  const std::int64_t tiles = (seq_len + cpu::kTileQueries - 1) / cpu::kTileQueries;
  const std::size_t workspace_bytes = cpu::attend_workspace_bytes(y.dim(2));
  std::byte* const workspaces =
      stream.scratch(workspace_bytes * static_cast<std::size_t>(stream.pool().num_threads()));
  const std::int64_t operations =
      2 * std::min(cpu::kTileQueries, seq_len) * num_keys(input) * y.dim(2);
  cpu::for_each_tile(stream, y.dim(0) / seq_len * heads * tiles, operations, workspaces,
                     workspace_bytes, [&](std::int64_t item, std::byte* workspace) {
                       attend_tile(tier, input, y,
                                   {.frame = item / (tiles * heads),
                                    .first_query = item % tiles * cpu::kTileQueries,
                                    .head = item / tiles % heads},
                                   workspace);
                     });
}

// The division of a call into items, each of at most max_query_panels() panels of queries of a
// frame and head.
class PanelItems {
 public:
  PanelItems(const AttentionInput& input, View y, std::int64_t max_panels, int num_threads);
  std::int64_t count() const { return frame_heads_ * parts_; }
  cpu::PanelAttention operator[](std::int64_t item) const;

  std::int64_t parts() const { return parts_; }  // items of a frame and head

 private:
  const AttentionInput& input_;
  View y_;
  std::int64_t frame_heads_;
  std::int64_t panels_;  // number of query panels of a frame and head
  std::int64_t parts_;
};

// Heads are split further where there are fewer than kItemsPerThread items for each thread.
PanelItems::PanelItems(const AttentionInput& input, View y, std::int64_t max_panels,
                       int num_threads)
    : input_(input), y_(y) {
  constexpr std::int64_t kItemsPerThread = 4;
  frame_heads_ = y.dim(0) / input.seq_len * y.dim(1);
  panels_ = (input.seq_len + cpu::kPanelQueries - 1) / cpu::kPanelQueries;
  const std::int64_t wanted = (kItemsPerThread * num_threads + frame_heads_ - 1) / frame_heads_;
  const std::int64_t least = (panels_ + max_panels - 1) / max_panels;
  parts_ = std::min(panels_, std::max(wanted, least));
}

// The items of a head are adjacent, then the heads of a frame.
cpu::PanelAttention PanelItems::operator[](std::int64_t item) const {
  const std::int64_t part = item % parts_;
  const std::int64_t head = item / parts_ % y_.dim(1);
  const std::int64_t frame = item / (parts_ * y_.dim(1));
  const std::int64_t head_dim = y_.dim(2);
  const std::int64_t kv_head = head / (y_.dim(1) / input_.k.dim(1));
  const std::int64_t first_query = part * panels_ / parts_ * cpu::kPanelQueries;
  const std::int64_t end_query = (part + 1) * panels_ / parts_ * cpu::kPanelQueries;
  const std::int64_t row = frame * input_.seq_len + first_query;
  const std::int64_t first_key =
      frame * num_keys(input_) * input_.k.row_stride() + kv_head * head_dim;
  return {.q = input_.q.as<float>() + row * input_.q.row_stride() + head * head_dim,
          .q_stride = input_.q.row_stride(),
          .num_queries = std::min(end_query, input_.seq_len) - first_query,
          .k = static_cast<const std::uint16_t*>(input_.k.raw()) + first_key,
          .v = static_cast<const std::uint16_t*>(input_.v.raw()) + first_key,
          .kv_stride = input_.k.row_stride(),
          .num_keys = num_keys(input_),
          .head_dim = head_dim,
          .scale = input_.scale,
          .y = y_.as<float>() + row * y_.row_stride() + head * head_dim,
          .y_stride = y_.row_stride()};
}

void attend_in_panels(const cpu::Tier& tier, Stream& stream, const AttentionInput& input, View y) {
  const int num_threads = stream.pool().num_threads();
  const PanelItems items(input, y, cpu::max_query_panels(tier, y.dim(2)), num_threads);
  const std::size_t workspace_bytes = cpu::attend_panels_workspace_bytes(tier, y.dim(2));
  std::byte* const workspaces =
      stream.scratch(workspace_bytes * static_cast<std::size_t>(num_threads));
  const std::int64_t operations = 2 * input.seq_len / items.parts() * num_keys(input) * y.dim(2);
  cpu::for_each_tile(stream, items.count(), operations, workspaces, workspace_bytes,
                     [&](std::int64_t item, std::byte* workspace) {
                       cpu::attend_panels(tier, items[item], workspace);
                     });
}

}  // namespace

void attention(Cpu, Stream& stream, const AttentionInput& input, View y) {
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  if (input.k.row_stride() != input.v.row_stride()) {
    throw Error(ErrorCode::kInternal, "attention: k and v have different row strides");
  }
  if (y.num_elements() == 0) return;
  const bool has_panels = tier.attention.query_panels.attend_block != nullptr;
  if (has_panels && input.k.dtype() == DType::kBF16) {
    attend_in_panels(tier, stream, input, y);
  } else {
    attend_in_tiles(tier, stream, input, y);
  }
}

}  // namespace caption::kernels::impl
