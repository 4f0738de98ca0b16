// Two passes over the keys, so that probabilities need not be stored: the first pass finds each
// row's maximum and sum as attention does, the second adds exp(score - maximum) / sum.
#include "kernels/attention_mass.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/cpu/internal/key_runs.h"
#include "kernels/cpu/paged_keys.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/select_tier.h"

namespace caption::kernels::impl {
namespace {

// Rows of queries that are processed together, so that they share the keys in the cache.
constexpr std::int64_t kWatchedRows = 16;

struct TileState {
  float q[kWatchedRows * internal::kMaxHeadDim];
  float scores[kWatchedRows * cpu::kBlockKeys];
  float scales[cpu::kBlockKeys];
  float max[kWatchedRows];
  float sum[kWatchedRows];
};

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool empty() const { return begin >= end; }
  std::int64_t size() const { return end - begin; }
};

struct Tile {
  cpu::Keys keys;
  std::int64_t count = 0;  // rows of q
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  // as PagedContext::window
  std::int64_t num_visible[kWatchedRows] = {};

  std::int64_t first_visible(std::int64_t m) const {
    return window == 0 ? 0 : std::max<std::int64_t>(num_visible[m] - window, 0);
  }
  // The keys of a block that row m sees, counted from the block's first one.
  Range visible(std::int64_t m, const cpu::KeyBlock& block) const {
    return {.begin = std::max<std::int64_t>(first_visible(m) - block.first, 0),
            .end = std::min(num_visible[m] - block.first, block.count)};
  }
};

// Calls work(block) for each block of keys that the tile sees, after computing its scores. Blocks
// end at multiples of kBlockKeys; the first one begins where the first window does.
template <class Work>
void for_each_block(const cpu::Tier& tier, const Tile& tile, float scale, TileState& state,
                    const Work& work) {
  const auto [least, most] = std::minmax_element(tile.num_visible, tile.num_visible + tile.count);
  const std::int64_t num_keys = *most;
  std::int64_t end = 0;
  for (std::int64_t first = tile.first_visible(least - tile.num_visible); first < num_keys;
       first = end) {
    end = std::min((first / cpu::kBlockKeys + 1) * cpu::kBlockKeys, num_keys);
    const cpu::KeyBlock block{.first = first, .count = end - first};
    cpu::dot_keys(tier, tile.keys, block,
                  {.q = state.q, .count = tile.count, .head_dim = tile.head_dim}, state.scores);
    cpu::load_key_scales(tile.keys, block, scale, state.scales);
    for (std::int64_t m = 0; m < tile.count; ++m) {
      float* const scores = state.scores + m * cpu::kBlockKeys;
      for (std::int64_t j = 0; j < block.count; ++j) scores[j] *= state.scales[j];
    }
    work(block);
  }
}

void add_tile(const cpu::Tier& tier, const Tile& tile, float scale, TileState& state, float* sums) {
  std::fill_n(state.max, tile.count, -std::numeric_limits<float>::infinity());
  std::fill_n(state.sum, tile.count, 0.0F);
  for_each_block(tier, tile, scale, state, [&](const cpu::KeyBlock& block) {
    for (std::int64_t m = 0; m < tile.count; ++m) {
      const Range visible = tile.visible(m, block);
      if (visible.empty()) continue;
      float* const scores = state.scores + m * cpu::kBlockKeys + visible.begin;
      const float max = std::max(state.max[m], *std::max_element(scores, scores + visible.size()));
      if (max > state.max[m]) {
        state.sum[m] *= std::exp(state.max[m] - max);  // exp(-infinity) = 0 for the first block
        state.max[m] = max;
      }
      state.sum[m] += tier.exp_sum(scores, visible.size(), max);
    }
  });
  for_each_block(tier, tile, scale, state, [&](const cpu::KeyBlock& block) {
    for (std::int64_t m = 0; m < tile.count; ++m) {
      const Range visible = tile.visible(m, block);
      if (visible.empty()) continue;
      float* const scores = state.scores + m * cpu::kBlockKeys + visible.begin;
      tier.exp_sum(scores, visible.size(), state.max[m]);
      float* const to = sums + block.first + visible.begin;
      for (std::int64_t j = 0; j < visible.size(); ++j) to[j] += scores[j] / state.sum[m];
    }
  });
}

void watch_head(const cpu::Tier& tier, const AttentionWatch& watch, std::int64_t kv_head,
                ConstView q, const PagedContext& context, float scale) {
  const std::int64_t group = q.dim(1) / context.k_pages.dim(2);
  const std::int64_t end_row = context.cu_seqlens.as<std::int32_t>()[watch.sequence + 1];
  const std::int64_t context_len = context.context_lens.as<std::int32_t>()[watch.sequence];
  Tile tile{.keys = cpu::paged_keys(context, watch.sequence, kv_head),
            .head_dim = q.dim(2),
            .window = context.window};
  // The arrays are left uninitialised: only the rows and columns in use are written and read.
  TileState state;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::int64_t first = 0; first < watch.num_rows * group; first += kWatchedRows) {
    tile.count = std::min(kWatchedRows, watch.num_rows * group - first);
    for (std::int64_t m = 0; m < tile.count; ++m) {
      const std::int64_t row = watch.first_row + (first + m) / group;
      const std::int64_t head = kv_head * group + (first + m) % group;
      std::copy_n(q.as<float>() + row * q.row_stride() + head * tile.head_dim, tile.head_dim,
                  state.q + m * tile.head_dim);
      tile.num_visible[m] = context_len - (end_row - row) + 1;
    }
    add_tile(tier, tile, scale, state, watch.sums.as<float>() + kv_head * watch.sums.row_stride());
  }
}

void check_watch(const AttentionWatch& watch, const PagedContext& context) {
  const std::int32_t* const begin = context.cu_seqlens.as<std::int32_t>() + watch.sequence;
  CAPTION_CHECK(watch.num_rows >= 0 && watch.first_row >= begin[0] &&
                    watch.first_row + watch.num_rows <= begin[1],
                "attention_mass: the watched rows are not the sequence's");
  CAPTION_CHECK(context.context_lens.as<std::int32_t>()[watch.sequence] <= watch.sums.dim(1),
                "attention_mass: the context is longer than its sums");
  CAPTION_CHECK(context.clusters.empty() ||
                    context.clusters[static_cast<std::size_t>(watch.sequence)] == nullptr,
                "attention_mass: a watched sequence has key clusters");
}

}  // namespace

void attention_mass(Cpu, Stream& stream, ConstView q, const PagedContext& context, float scale,
                    std::span<const AttentionWatch> watches) {
  cpu::check_context("attention_mass", context, q.dim(0));
  for (const AttentionWatch& watch : watches) check_watch(watch, context);
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  const std::int64_t kv_heads = context.k_pages.dim(2);
  const std::int64_t count = std::ssize(watches) * kv_heads;
  const std::int64_t operations = 4 * kWatchedRows * cpu::kBlockKeys * q.dim(2);
  cpu::parallel_for(stream, count, operations, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      watch_head(tier, watches[static_cast<std::size_t>(item / kv_heads)], item % kv_heads, q,
                 context, scale);
    }
  });
}

}  // namespace caption::kernels::impl
