// Online softmax (arXiv:1805.02867) over blocks of keys at fixed positions.
//
// Layout    queries and outputs of the tile on the stack (at most 16 KiB each), scores of one block
//           beside them (8 KiB); keys and values stream by once per tile.
// Numerics  scores are Tier::dot over head_dim; a row's maximum, sum and output are updated once
// per
//           block from its own visible keys; values are accumulated in the order of positions, so
//           the ends of pages leave no trace.
#include "kernels/cpu/attend.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace caption::kernels::cpu {
namespace {

struct TileState {
  float q[kTileQueries * internal::kMaxHeadDim];
  float out[kTileQueries * internal::kMaxHeadDim];
  float scores[kTileQueries * kBlockKeys];
  float k_scales[kBlockKeys];  // of the block, times the scale of the scores
  float v_scales[kBlockKeys];
  float max[kTileQueries];
  float sum[kTileQueries];
};

// work(page, row, offset, count) for each stretch of positions [first, first + total) that lies in
// one run; offset counts from first.
template <class Work>
void for_each_run(const Keys& keys, std::int64_t first, std::int64_t total, const Work& work) {
  for (std::int64_t offset = 0; offset < total;) {
    const std::int64_t position = first + offset;
    const std::int64_t run = position / keys.run_tokens;
    const std::int64_t row = position % keys.run_tokens;
    const std::int64_t count = std::min(total - offset, keys.run_tokens - row);
    const std::int64_t page = keys.pages == nullptr ? run : keys.pages[run];
    work(page, row, offset, count);
    offset += count;
  }
}

std::int64_t byte_offset(const Keys& keys, std::int64_t page, std::int64_t row) {
  return (page * keys.run_stride + row * keys.token_stride) * keys.element_bytes;
}

void load_scales(const Keys& keys, std::int64_t first, std::int64_t total, float scale,
                 TileState& state) {
  for_each_run(keys, first, total, [&](auto page, auto row, auto offset, auto count) {
    std::int64_t from = (page * keys.run_tokens + row) * keys.scale_stride;
    for (std::int64_t j = offset; j < offset + count; ++j, from += keys.scale_stride) {
      state.k_scales[j] = scale * to_float(keys.k_scales[from]);
      state.v_scales[j] = to_float(keys.v_scales[from]);
    }
  });
}

// Turns row m's scores of this block into unnormalised probabilities, times the scales of the
// values where they have some; keys it does not see get 0.
void update_row(const Tier& tier, std::int64_t m, std::int64_t num_visible, std::int64_t num_keys,
                std::int64_t head_dim, float scale, bool has_scales, TileState& state) {
  float* const scores = state.scores + m * kBlockKeys;
  std::fill(scores + num_visible, scores + num_keys, 0.0f);
  if (num_visible == 0) return;
  float block_max = -std::numeric_limits<float>::infinity();
  for (std::int64_t j = 0; j < num_visible; ++j) {
    scores[j] *= has_scales ? state.k_scales[j] : scale;
    block_max = std::max(block_max, scores[j]);
  }
  const float new_max = std::max(state.max[m], block_max);
  if (new_max > state.max[m]) {
    const float correction = std::exp(state.max[m] - new_max);  // 0 for the first block
    state.sum[m] *= correction;
    float* const out = state.out + m * head_dim;
    for (std::int64_t d = 0; d < head_dim; ++d) out[d] *= correction;
    state.max[m] = new_max;
  }
  state.sum[m] += tier.exp_sum(scores, num_visible, new_max);
  if (!has_scales) return;
  for (std::int64_t j = 0; j < num_visible; ++j) scores[j] *= state.v_scales[j];
}

}  // namespace

void attend(const Tier& tier, const Keys& keys, const Queries& queries, std::int64_t head_dim,
            float scale) {
  // 41 KiB of which only the rows and columns in use are ever written or read.
  TileState state;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::int64_t m = 0; m < queries.count; ++m) {
    std::copy_n(queries.q[m], head_dim, state.q + m * head_dim);
    std::fill_n(state.out + m * head_dim, head_dim, 0.0f);
    state.max[m] = -std::numeric_limits<float>::infinity();
    state.sum[m] = 0;
  }
  const Gemm dot = tier.dot[static_cast<int>(keys.element)];
  const Gemm accumulate = tier.accumulate[static_cast<int>(keys.element)];
  const bool has_scales = keys.element == Element::kI8;
  const std::int64_t num_keys =
      *std::max_element(queries.num_visible, queries.num_visible + queries.count);

  for (std::int64_t first = 0; first < num_keys; first += kBlockKeys) {
    const std::int64_t block_keys = std::min(kBlockKeys, num_keys - first);
    if (has_scales) load_scales(keys, first, block_keys, scale, state);
    for_each_run(keys, first, block_keys, [&](auto page, auto row, auto offset, auto count) {
      dot({.a = state.q,
           .a_stride = head_dim,
           .b = keys.k + byte_offset(keys, page, row),
           .b_stride = keys.token_stride,
           .c = state.scores + offset,
           .c_stride = kBlockKeys,
           .m = queries.count,
           .n = count,
           .k = head_dim});
    });
    for (std::int64_t m = 0; m < queries.count; ++m) {
      const std::int64_t visible =
          std::clamp<std::int64_t>(queries.num_visible[m] - first, 0, block_keys);
      update_row(tier, m, visible, block_keys, head_dim, scale, has_scales, state);
    }
    for_each_run(keys, first, block_keys, [&](auto page, auto row, auto offset, auto count) {
      accumulate({.a = state.scores + offset,
                  .a_stride = kBlockKeys,
                  .b = keys.v + byte_offset(keys, page, row),
                  .b_stride = keys.token_stride,
                  .c = state.out,
                  .c_stride = head_dim,
                  .m = queries.count,
                  .n = head_dim,
                  .k = count});
    });
  }
  for (std::int64_t m = 0; m < queries.count; ++m) {
    for (std::int64_t d = 0; d < head_dim; ++d) {
      queries.y[m][d] = state.out[m * head_dim + d] / state.sum[m];
    }
  }
}

}  // namespace caption::kernels::cpu
