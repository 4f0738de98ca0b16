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

#include "kernels/cpu/internal/key_runs.h"

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

// The blocks of an attention, one after the other: kBlockKeys positions each, counted from 0, or
// as many of those that the selection asks for.
class Blocks {
 public:
  Blocks(std::int64_t num_keys, const Selection* selection)
      : num_keys_(num_keys), selection_(selection) {}

  // Fewer than kBlockKeys only at the end; none after it. Valid until the next call.
  KeyBlock next() {
    if (selection_ == nullptr) {
      const KeyBlock block{.first = next_, .count = std::min(kBlockKeys, num_keys_ - next_)};
      next_ += block.count;
      return block;
    }
    const std::int64_t end = selection_->first_token + selection_->num_tokens;
    std::int64_t count = 0;
    for (; next_ < num_keys_ && count < kBlockKeys; ++next_) {
      const bool is_in_clusters = next_ >= selection_->first_token && next_ < end;
      if (is_in_clusters &&
          !selection_->is_selected[selection_->cluster_of[next_ - selection_->first_token]]) {
        continue;
      }
      positions_[count++] = static_cast<std::int32_t>(next_);
    }
    return {.first = 0, .count = count, .positions = positions_};
  }

 private:
  std::int64_t num_keys_;
  const Selection* selection_;
  std::int64_t next_ = 0;
  std::int32_t positions_[kBlockKeys];
};

// Turns row m's scores of this block into unnormalised probabilities, times the scales of the
// values where they have some; keys it does not see get 0.
void update_row(const Tier& tier, std::int64_t m, std::int64_t num_visible, std::int64_t num_keys,
                std::int64_t head_dim, bool has_scales, TileState& state) {
  float* const scores = state.scores + m * kBlockKeys;
  std::fill(scores + num_visible, scores + num_keys, 0.0f);
  if (num_visible == 0) return;
  float block_max = -std::numeric_limits<float>::infinity();
  for (std::int64_t j = 0; j < num_visible; ++j) {
    scores[j] *= state.k_scales[j];
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
            float scale, const Selection* selection) {
  // 41 KiB of which only the rows and columns in use are ever written or read.
  TileState state;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::int64_t m = 0; m < queries.count; ++m) {
    std::copy_n(queries.q[m], head_dim, state.q + m * head_dim);
    std::fill_n(state.out + m * head_dim, head_dim, 0.0f);
    state.max[m] = -std::numeric_limits<float>::infinity();
    state.sum[m] = 0;
  }
  const Gemm accumulate = tier.accumulate[static_cast<int>(keys.element)];
  const bool has_scales = keys.v_scales != nullptr;
  Blocks blocks(*std::max_element(queries.num_visible, queries.num_visible + queries.count),
                selection);
  for (KeyBlock block = blocks.next(); block.count > 0; block = blocks.next()) {
    dot_keys(tier, keys, block, state.q, queries.count, head_dim, state.scores);
    load_key_scales(keys, block, scale, state.k_scales);
    if (has_scales) load_value_scales(keys, block, state.v_scales);
    for (std::int64_t m = 0; m < queries.count; ++m) {
      const std::int64_t visible =
          selection == nullptr
              ? std::clamp<std::int64_t>(queries.num_visible[m] - block.first, 0, block.count)
              : block.count;
      update_row(tier, m, visible, block.count, head_dim, has_scales, state);
    }
    for_each_run(keys, block, [&](auto page, auto row, auto offset, auto count) {
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
