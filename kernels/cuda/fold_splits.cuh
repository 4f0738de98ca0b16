// kernels/cuda/fold_splits.cuh: the states of a tile's splits, folded by the last of the blocks
// that attended them.
//
// Each block of a tile counts itself as arrived when its states are written; the one that finds all
// others arrived folds. Rows are folded in the order of their splits whichever block is last, so
// the bits depend on no schedule. A warp folds a row: a lane finds the factors of one split, and
// then has four dimensions of the output.
#pragma once

#include "kernels/cuda/arrive.cuh"
#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/primitives.cuh"

namespace caption::kernels::cuda {

// Splits whose outputs a lane loads before it adds the first: of each lane's factors.
inline constexpr int kFoldedAtOnce = 32;

CAPTION_DEVICE float shuffle_float(float x, int lane) {
  return float_of_bits(shuffle(bits_of_float(x), lane));
}

// The maximum of x over the lanes up to this one.
CAPTION_DEVICE float max_up_to_lane(float x) {
  for (int distance = 1; distance < 32; distance *= 2) {
    const float before = shuffle_float(x, (lane_index() + 32 - distance) % 32);
    x = lane_index() >= distance && before > x ? before : x;
  }
  return x;
}

CAPTION_DEVICE void store_folded(const AttendParams& p, std::int64_t to,
                                 const Packed<float, 4>& numbers, int count) {
  const auto pack_bytes = static_cast<std::uintptr_t>(p.y.dtype == DType::kF32 ? 16 : 8);
  const bool has_packs = reinterpret_cast<std::uintptr_t>(p.y.begin) % pack_bytes == 0 &&
                         p.y_stride % 4 == 0 && p.head_dim % 4 == 0;
  if (has_packs) return store_numbers<4>(p.y, to, numbers);
  for (int i = 0; i < 4; ++i) {
    if (i < count) store_numbers<1>(p.y, to + i, {numbers.x[i]});
  }
}

// Folds the states of a row that sees `keys` as fold() does, one split after the other, and stores
// its vector of y. The lanes of a warp call it together.
CAPTION_DEVICE void fold_row(const AttendParams& p, const KeyRange& keys, int first_state,
                             int vector) {
  const int begin = keys.begin / kSplitKeys;
  const int end = (keys.end + kSplitKeys - 1) / kSplitKeys;
  const int lane = lane_index();
  for (int first_dim = 0; first_dim < p.head_dim; first_dim += 128) {
    const int d = first_dim + lane * 4;
    const bool has_dims = d < p.head_dim;
    RowState total;
    Packed<float, 4> output{};
    CAPTION_NO_UNROLL
    for (int group = begin; group < end; group += kFoldedAtOnce) {
      const int splits = end - group < kFoldedAtOnce ? end - group : kFoldedAtOnce;
      const auto state_of = [&](int i) { return p.state(vector, group + i - first_state); };
      Packed<float, 4> next[kFoldedAtOnce];
      CAPTION_UNROLL
      for (int i = 0; i < kFoldedAtOnce; ++i) {
        next[i] = {};
        if (i >= splits || !has_dims) continue;
        next[i] = load(reinterpret_cast<const Packed<float, 4>*>(state_of(i) + d));
      }
      const float* const sums = state_of(lane < splits ? lane : splits - 1) + p.state_sums();
      const RowState own{load(sums), load(sums + 1)};
      const float largest = max_up_to_lane(own.max);
      const float max = largest > total.max ? largest : total.max;
      const float max_before = shuffle_float(max, (lane + 31) % 32);
      // FoldFactors of the lane's split.
      const float first = exponential((lane == 0 ? total.max : max_before) - max);
      const float second = exponential(own.max - max);
      const float sum = own.sum * second;
      CAPTION_UNROLL
      for (int i = 0; i < kFoldedAtOnce; ++i) {
        if (i >= splits) continue;
        const float of_total = shuffle_float(first, i);
        const float of_next = shuffle_float(second, i);
        total.sum = fused(total.sum, of_total, shuffle_float(sum, i));
        for (int e = 0; e < 4; ++e) {
          output.x[e] = fused(output.x[e], of_total, next[i].x[e] * of_next);
        }
      }
      total.max = shuffle_float(max, 31);
    }
    if (!has_dims) continue;
    for (int e = 0; e < 4; ++e) output.x[e] = finished(output.x[e], total.sum);
    store_folded(p, p.output_offset(vector) + d, output, p.head_dim - d);
  }
}

// Called by the threads of a block that has stored the states of one split of a tile. `is_last` is
// in shared memory that no thread accesses otherwise.
template <int kWarps>
CAPTION_DEVICE void fold_tile(const AttendParams& p, const Tile& tile, std::uint32_t& is_last) {
  const KeyRange keys = tile.keys(p);
  const int splits = (keys.end + kSplitKeys - 1) / kSplitKeys - keys.begin / kSplitKeys;
  sync_block();
  if (thread_index() == 0) {
    std::uint32_t* const arrived =
        p.arrived + static_cast<std::int64_t>(block_x()) * p.kv_heads + block_y();
    const auto all = static_cast<std::uint32_t>(splits);
    const bool are_all_here = arrive(arrived) + 1 == all;
    if (are_all_here) atomic_add(arrived, 0 - all);
    store(&is_last, are_all_here ? 1u : 0u);
  }
  sync_block();
  if (load(&is_last) == 0) return;
  const int first_state = tile.sequence.first_split(p);
  CAPTION_NO_UNROLL
  for (int row = warp_index(); row < tile.rows; row += kWarps) {
    fold_row(p, tile.keys_of(p, row), first_state, tile.vector(p, block_y(), row));
  }
}

}  // namespace caption::kernels::cuda
