// kernels/cuda/fold_splits.cuh: the states of a tile's splits, folded by the last of the blocks
// that attended them.
//
// Each block of a tile counts itself as arrived when its states are written; the one that finds all
// others arrived folds. Rows are folded in the order of their splits whichever block is last, so
// the bits depend on no schedule. A warp folds a row: its lanes find the factors of up to 32
// splits, and each folds four dimensions of all splits, whose outputs it loads 16 splits ahead.
#pragma once

#include "kernels/cuda/arrive.cuh"
#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/primitives.cuh"

namespace caption::kernels::cuda {

inline constexpr int kFoldDims = 4 * 32;  // dimensions that a warp folds at once
// Splits whose outputs a lane has loaded or is loading, and those whose factors are in shared
// memory.
inline constexpr int kFoldAhead = 16;
inline constexpr int kFoldStates = 32;

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

// Where the states of a row's splits are: the first one's, and the floats from one to the next.
struct RowStates {
  const float* begin;
  int stride;
  int splits;
};

CAPTION_DEVICE RowStates states_of(const AttendParams& p, const Tile& tile,
                                   const VectorPlace& vector, int row) {
  const KeyRange splits = splits_of(tile.keys_of(p, row));
  return {p.state(vector, splits.begin - tile.sequence.first_split(p)), p.state_sums() + 8,
          splits.end - splits.begin};
}

// What folds a split into those before: FoldFactors, and the split's sum times the second one.
struct alignas(16) SplitFactors {
  float first;
  float second;
  float sum;
};
// The factors that each of kWarps warps has found.
template <int kWarps>
struct FoldMemory {
  SplitFactors factors[kWarps][kFoldStates];
};

// Finds the factors of the kFoldStates splits from `done` on, a lane those of one, and adds their
// maxima to that of the splits before. The lanes of a warp call it together.
CAPTION_DEVICE void find_factors(const AttendParams& p, const RowStates& row, int done,
                                 float& total_max, SplitFactors (&factors)[kFoldStates]) {
  const int lane = lane_index();
  const bool has_split = done + lane < row.splits;
  const int split = has_split ? done + lane : row.splits - 1;
  const float* const state =
      row.begin + static_cast<std::int64_t>(split) * row.stride + p.state_sums();
  const RowState own{load(state), load(state + 1)};
  const float largest = max_up_to_lane(own.max);
  const float max = largest > total_max ? largest : total_max;
  const float max_before = shuffle_float(max, (lane + 31) % 32);
  const float second = exponential(own.max - max);
  store(&factors[lane],
        {exponential((lane == 0 ? total_max : max_before) - max), second, own.sum * second});
  total_max = shuffle_float(max, 31);
}

// Folds four dimensions from d on of the outputs of a row, and the sums of its splits, as fold()
// does, one split after the other. A lane whose dimensions the head lacks folds the sums alone. The
// lanes of a warp call it together.
CAPTION_DEVICE void fold_dims(const AttendParams& p, const RowStates& row, int d,
                              SplitFactors (&factors)[kFoldStates], float (&output)[4],
                              float& total_sum) {
  constexpr int kAtOnce = 4;  // splits that are loaded together
  const float* const begin = row.begin + d;
  const int splits_with_dims = d < p.head_dim ? row.splits : 0;
  Packed<float, 4> ahead[kFoldAhead] = {};
  const auto load_splits = [&](int first_split, int at) {
    CAPTION_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const int split = first_split + i;
      const auto offset =
          static_cast<std::uint32_t>(split) * static_cast<std::uint32_t>(row.stride);
      if (split < splits_with_dims) {
        ahead[at + i] = load(reinterpret_cast<const Packed<float, 4>*>(begin + offset));
      }
    }
  };
  CAPTION_UNROLL
  for (int i = 0; i < kFoldAhead; i += kAtOnce) {
    if (i < row.splits) load_splits(i, i);
  }
  float total_max = kNoScore;
  CAPTION_NO_UNROLL
  for (int done = 0; done < row.splits; done += kFoldAhead) {
    if (done % kFoldStates == 0) {
      sync_warp();  // all lanes have read the factors before
      find_factors(p, row, done, total_max, factors);
      sync_warp();
    }
    CAPTION_UNROLL
    for (int i = 0; i < kFoldAhead; ++i) {
      if (done + i >= row.splits) break;
      const SplitFactors of = load(&factors[done % kFoldStates + i]);
      total_sum = fused(total_sum, of.first, of.sum);
      CAPTION_UNROLL
      for (int e = 0; e < 4; ++e) {
        output[e] = fused(output[e], of.first, ahead[i].x[e] * of.second);
      }
      const int next = done + kFoldAhead + i + 1 - kAtOnce;
      if ((i + 1) % kAtOnce == 0 && next < row.splits) load_splits(next, i + 1 - kAtOnce);
    }
  }
}

// Folds the states of a row of the tile, and stores its vector of y. The lanes of a warp call it
// together.
CAPTION_DEVICE void fold_row(const AttendParams& p, const Tile& tile, int row,
                             SplitFactors (&factors)[kFoldStates]) {
  const VectorPlace vector = tile.vector(p, block_y(), row);
  const RowStates states = states_of(p, tile, vector, row);
  CAPTION_NO_UNROLL
  for (int first_dim = 0; first_dim < p.head_dim; first_dim += kFoldDims) {
    const int d = first_dim + lane_index() * 4;
    float output[4] = {};
    float sum = 0;
    fold_dims(p, states, d, factors, output, sum);
    if (d >= p.head_dim) continue;
    Packed<float, 4> numbers;
    for (int i = 0; i < 4; ++i) numbers.x[i] = finished(output[i], sum);
    store_folded(p, p.output_offset(vector) + d, numbers, p.head_dim - d);
  }
}

// Called by the threads of a block that has stored the states of one split of a tile. `is_last` is
// in shared memory that no thread accesses otherwise, `memory` in such that none accesses any more.
template <int kWarps>
CAPTION_DEVICE void fold_tile(const AttendParams& p, const Tile& tile, std::uint32_t& is_last,
                              FoldMemory<kWarps>& memory) {
  const KeyRange splits = splits_of(tile.keys(p));
  sync_block();
  if (thread_index() == 0) {
    std::uint32_t* const arrived =
        p.arrived + static_cast<std::int64_t>(block_x()) * p.kv_heads + block_y();
    const auto all = static_cast<std::uint32_t>(splits.end - splits.begin);
    const bool are_all_here = arrive(arrived) + 1 == all;
    if (are_all_here) atomic_add(arrived, 0 - all);
    store(&is_last, are_all_here ? 1u : 0u);
  }
  sync_block();
  if (load(&is_last) == 0) return;
  CAPTION_NO_UNROLL
  for (int row = warp_index(); row < tile.rows; row += kWarps) {
    fold_row(p, tile, row, memory.factors[warp_index()]);
  }
}

}  // namespace caption::kernels::cuda
