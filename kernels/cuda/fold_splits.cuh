// kernels/cuda/fold_splits.cuh: the states of a tile's splits, folded by the last of the blocks
// that attended them.
//
// Each block of a tile counts itself as arrived when its states are written; the one that finds all
// others arrived folds. Rows are folded in the order of their splits whichever block is last, so
// the bits depend on no schedule. Half a warp folds a row, 16 splits at a time: a lane finds the
// factors of one split, and then has eight dimensions of the output.
#pragma once

#include "kernels/cuda/arrive.cuh"
#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/primitives.cuh"

namespace caption::kernels::cuda {

// Lanes that fold a row, and splits whose outputs a lane loads before it adds the first.
inline constexpr int kFoldLanes = 16;
inline constexpr int kHalfDims = 4 * kFoldLanes;  // adjacent dimensions that they load at once

CAPTION_DEVICE float shuffle_float(float x, int lane) {
  return float_of_bits(shuffle(bits_of_float(x), lane));
}

// The maximum of x over the lanes of this half of the warp up to this one.
CAPTION_DEVICE float max_up_to_lane(float x) {
  for (int distance = 1; distance < kFoldLanes; distance *= 2) {
    const float before = shuffle_float(x, (lane_index() + 32 - distance) % 32);
    x = lane_index() % kFoldLanes >= distance && before > x ? before : x;
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

// Where the states of a row's splits are: the first one's, and the floats from one to the next.
struct RowStates {
  const float* begin;
  int stride;
  int splits;
};

CAPTION_DEVICE RowStates states_of(const AttendParams& p, const Tile& tile, int row) {
  const KeyRange keys = tile.keys_of(p, row);
  const int begin = keys.begin / kSplitKeys;
  const int vector = tile.vector(p, block_y(), row);
  return {p.state(vector, begin - tile.sequence.first_split(p)), p.state_sums() + 8,
          (keys.end + kSplitKeys - 1) / kSplitKeys - begin};
}

// The state of a split of the row; for a split that the row lacks, the state of its last one.
CAPTION_DEVICE RowState load_state(const AttendParams& p, const RowStates& row, int split) {
  const int inside = split < row.splits ? split : row.splits - 1;
  const float* const sums =
      row.begin + static_cast<std::int64_t>(inside) * row.stride + p.state_sums();
  return {load(sums), load(sums + 1)};
}

// Folds four dimensions from d on, and four from d + kHalfDims on, of the outputs of a row, and the
// sums of its splits, as fold() does, one split after the other. rows[i] is that of the lanes of
// half i of the warp; dimensions that the head lacks are not read.
CAPTION_DEVICE void fold_dims(const AttendParams& p, const RowStates (&rows)[2], int d,
                              float (&output)[8], float& total_sum) {
  const int lane = lane_index() % kFoldLanes;
  const int half = lane_index() - lane;
  const RowStates row{half == 0 ? rows[0].begin : rows[1].begin, rows[0].stride,
                      half == 0 ? rows[0].splits : rows[1].splits};
  const int most = rows[0].splits > rows[1].splits ? rows[0].splits : rows[1].splits;
  float total_max = kNoScore;
  CAPTION_NO_UNROLL
  for (int done = 0; done < most; done += kFoldLanes) {
    const int left = row.splits - done;
    const float* const from = row.begin + static_cast<std::int64_t>(done) * row.stride;
    Packed<float, 4> next[kFoldLanes][2];
    const float* dims = from + d;
    CAPTION_UNROLL
    for (int i = 0; i < kFoldLanes; ++i) {
      CAPTION_UNROLL
      for (int part = 0; part < 2; ++part) {
        next[i][part] = {};
        if (i < left && d + part * kHalfDims < p.head_dim) {
          next[i][part] =
              load(reinterpret_cast<const Packed<float, 4>*>(dims + part * kHalfDims));
        }
      }
      dims += row.stride;
    }
    const RowState of_first = load_state(p, rows[0], done + lane);
    const RowState of_second = load_state(p, rows[1], done + lane);
    const RowState own = half == 0 ? of_first : of_second;
    const float largest = max_up_to_lane(own.max);
    const float max = largest > total_max ? largest : total_max;
    const float max_before = shuffle_float(max, half + (lane + kFoldLanes - 1) % kFoldLanes);
    // FoldFactors of the lane's split; of one that the row lacks 1 and 0, which change nothing.
    const float first = exponential((lane == 0 ? total_max : max_before) - max);
    const float second = lane < left ? exponential(own.max - max) : 0.0F;
    const float sum = own.sum * second;
    CAPTION_UNROLL
    for (int i = 0; i < kFoldLanes; ++i) {
      if (i >= most - done) continue;
      const float of_total = shuffle_float(first, half + i);
      const float of_next = shuffle_float(second, half + i);
      total_sum = fused(total_sum, of_total, shuffle_float(sum, half + i));
      CAPTION_UNROLL
      for (int e = 0; e < 8; ++e) {
        output[e] = fused(output[e], of_total, next[i][e / 4].x[e % 4] * of_next);
      }
    }
    total_max = shuffle_float(max, half + kFoldLanes - 1);
  }
}

// Folds the states of the tile's rows first_row and first_row + 1, if there are two, and stores
// their vectors of y. The lanes of a warp call it together, each half for one of the rows.
CAPTION_DEVICE void fold_rows(const AttendParams& p, const Tile& tile, int first_row) {
  const int lane = lane_index() % kFoldLanes;
  const bool has_row = first_row + lane_index() / kFoldLanes < tile.rows;
  const int row = has_row ? first_row + lane_index() / kFoldLanes : first_row;
  const int vector = tile.vector(p, block_y(), row);
  const bool has_second = first_row + 1 < tile.rows;
  const RowStates rows[2] = {states_of(p, tile, first_row),
                             states_of(p, tile, has_second ? first_row + 1 : first_row)};
  CAPTION_NO_UNROLL
  for (int first_dim = 0; first_dim < p.head_dim; first_dim += 2 * kHalfDims) {
    const int d = first_dim + lane * 4;
    float output[8] = {};
    float sum = 0;
    fold_dims(p, rows, d, output, sum);
    CAPTION_UNROLL
    for (int part = 0; part < 2; ++part) {
      const int first = d + part * kHalfDims;
      if (!has_row || first >= p.head_dim) continue;
      Packed<float, 4> numbers;
      for (int i = 0; i < 4; ++i) numbers.x[i] = finished(output[part * 4 + i], sum);
      store_folded(p, p.output_offset(vector) + first, numbers, p.head_dim - first);
    }
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
  CAPTION_NO_UNROLL
  for (int row = 2 * warp_index(); row < tile.rows; row += 2 * kWarps) fold_rows(p, tile, row);
}

}  // namespace caption::kernels::cuda
