// kernels/cuda/attend_tiles.cuh: attention on tensor cores, for keys of bf16, f16 and i8.
//
// A warp attends 16 query rows, 64 keys at a time: scores and probabilities are fragments of
// m16n8k16, so that the probabilities of a step are the first factor of the second product without
// leaving their registers. Four warps share the keys of 64 rows and fold the splits; for few rows a
// block attends 16 rows to one split with its first warp, which three others help to copy, and the
// last block of a tile folds. What a warp does for a split is the same in both.
//
// Traffic    the keys and values of a tile once per 64 rows, or 16.
// In flight  of splits, the keys and values of two steps: with 128 dimensions of 16 bits, 32 to 64
//            KB per block. Of 64 rows, 64 keys of the next step while scores become probabilities,
//            and its 64 values while the keys are multiplied. On sm_75, 4 KB per warp, while it
//            does not multiply.
// Waits      of a split, for lengths, for slots, and for the first step's keys. In a graph these
//            pass while the launch before ends, but where its keys are of the step itself.
// Numerics   queries and probabilities are rounded to the keys' dtype, with i8 to bf16; sums are
//            f32 in the tensor core's order. The exponential is within 2^-18, which is below half a
//            unit of f16.
// Measured on no GPU.
#pragma once

#include <type_traits>

#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/attend.h"
#include "kernels/cuda/attend_tile_memory.cuh"
#include "kernels/cuda/dependent_launch.cuh"
#include "kernels/cuda/fold_splits.cuh"

namespace caption::kernels::cuda {

inline constexpr int kStepTiles = kStepKeys / 8;  // fragments of scores in a step
inline constexpr float kLn2 = 0x1.62e430p-1F;

CAPTION_DEVICE void multiply(BF16, FragmentC& c, const FragmentA& a, const FragmentB& b) {
  mma_bf16(c, a, b);
}
CAPTION_DEVICE void multiply(F16, FragmentC& c, const FragmentA& a, const FragmentB& b) {
  mma_f16(c, a, b);
}

// As TileMemory.
template <class T, class Element, int kDimTiles, TileWork kWork>
struct AttendTiles : TileMemory<T, Element, kDimTiles, kWork> {
  using Memory = TileMemory<T, Element, kDimTiles, kWork>;
  using Memory::block_of;
  using Memory::copy_step;
  using Memory::find_slots;
  using Memory::kBuffers;
  using Memory::key_buffer;
  using Memory::kHasOneBuffer;
  using Memory::kIsInt8;
  using Memory::kKeepsTotal;
  using Memory::kSplits;
  using Memory::kStepsAhead;
  using Memory::kThreads;
  using Memory::kTileRows;
  using Memory::load_queries;
  using Memory::shared;
  using Memory::value_buffer;
  using Memory::widen_step;
  using typename Memory::Block;
  using typename Memory::Buffer;
  using typename Memory::Params;
  using typename Memory::Rows;
  using typename Memory::Total;
  // State of the lane's two rows; output tile n has the dimensions 8 n .. 8 n + 7.
  struct State {
    RowState row[2];
    FragmentC output[2 * kDimTiles] = {};
  };
  static CAPTION_DEVICE void run(const Params& p) {
    const Tile tile = find_tile(p, block_x(), kTileRows);
    if (tile.rows == 0) return wait_for_launches_before();
    const KeyRange splits = splits_of_block(p, tile);
    if (splits.begin == splits.end) return wait_for_launches_before();
    const Block block = block_of(p, tile, splits);
    // With i8 it reads scales, of which the last launch may have written some.
    if constexpr (kIsInt8) wait_for_launches_before();
    find_slots(block, kSplits ? begin_of_split(splits.begin) : part_of(block.steps.begin));
    sync_block();
    begin_copies(block);
    load_queries(block);
    State total;
    State state;
    bool has_total = false;
    for (int step = block.steps.begin; step < block.steps.end; ++step) {
      attend_step(block, step, state);
      const bool is_last = step + 1 == block.steps.end || begins_split(step + 1);
      if (!is_last || block.some.begin >= block.some.end) continue;
      finish_split(state);
      if constexpr (kSplits) {
        store_state<0>(block, splits.begin, state);
        store_state<1>(block, splits.begin, state);
      } else {
        if (!kKeepsTotal) total = {};
        if (!kKeepsTotal && has_total) load_total(total);
        fold_states(total, state);
        if (!kKeepsTotal) store_total(total);
        has_total = true;
        state = {};
      }
    }
    if constexpr (kSplits) {
      fold_tile(p, tile, shared().is_last, shared().fold);
    } else {
      sync_block();  // all warps have read the last values, whose place totals take
      if (block.some.begin >= block.some.end) return;
      if (kKeepsTotal) store_total(total);
      store_outputs(block);
    }
  }

  // Where a thread has the total of its rows. Before the outputs are stored, it is there in any
  // case, as a loop over what registers hold would be as long as what it does for all of them.
  static CAPTION_DEVICE Total& total_memory() {
    if constexpr (kKeepsTotal) {
      return shared().last_total;
    } else {
      return shared().total;
    }
  }

  // The first position of a step's part.
  static CAPTION_DEVICE int part_of(int step) { return step / kStepsOfPart * kPartKeys; }
  static CAPTION_DEVICE bool begins_split(int step) {
    const int position = step * kStepKeys;
    return position == begin_of_split(split_of(position));
  }

  // A thread's numbers are its own: no barrier is needed.
  static CAPTION_DEVICE void load_total(State& total) {
    const int thread = thread_index();
    const Total& memory = total_memory();
    for (int half = 0; half < 2; ++half) {
      total.row[half] = {load(&memory[2 * half][thread]), load(&memory[2 * half + 1][thread])};
    }
    for (int i = 0; i < 8 * kDimTiles; ++i) {
      total.output[i / 4].sum[i % 4] = load(&memory[4 + i][thread]);
    }
  }
  static CAPTION_DEVICE void store_total(const State& total) {
    const int thread = thread_index();
    Total& memory = total_memory();
    for (int half = 0; half < 2; ++half) {
      store(&memory[2 * half][thread], total.row[half].max);
      store(&memory[2 * half + 1][thread], total.row[half].sum);
    }
    for (int i = 0; i < 8 * kDimTiles; ++i) {
      store(&memory[4 + i][thread], total.output[i / 4].sum[i % 4]);
    }
  }

  // Begins the copies of the first steps. Launches before, for which it waits, made the queries,
  // and the keys and values from the tokens' first position on.
  static CAPTION_DEVICE void begin_copies(const Block& block) {
    const int steps_of_others =
        block.p.block_tables == nullptr ? 0 : block.tile.sequence.first_position / kStepKeys;
    bool has_waited = kIsInt8;
    CAPTION_NO_UNROLL
    for (int i = 0; i < (kHasOneBuffer ? 1 : kStepsAhead); ++i) {
      const int step = block.steps.begin + i;
      if (!has_waited && step >= steps_of_others) {
        wait_for_launches_before();
        has_waited = true;
      }
      copy_if(block, block.k, key_buffer(step), step);
      if constexpr (!kHasOneBuffer) copy_if(block, block.v, value_buffer(step), step);
    }
    if (!has_waited) wait_for_launches_before();
  }

  // Begins the copy of a step's keys or values if the block has the step; else an empty group.
  static CAPTION_DEVICE void copy_if(const Block& block, const unsigned char* from, Buffer& to,
                                     int step) {
    if (step < block.steps.end) return copy_step(block, from, to, step);
    commit_copies();
  }

  // The step's keys are under way, and, but with one buffer, its values.
  static CAPTION_DEVICE void attend_step(const Block& block, int step, State& state) {
    // Groups of copies that a wait leaves under way.
    constexpr int kGroupsBehind = kBuffers - 1;
    const int first = step * kStepKeys;
    const bool sees_keys = first < block.some.end && first + kStepKeys > block.some.begin;
    const bool is_last = step + 1 == block.steps.end;
    wait_copies<kGroupsBehind>();
    sync_block();
    // The next part's slots are needed after the next barrier.
    const int next_part = part_of(step) + kPartKeys;
    const bool is_first = step == block.steps.begin || step % kStepsOfPart == 0;
    if (!kSplits && is_first && next_part < block.steps.end * kStepKeys) {
      find_slots(block, next_part);
    }
    FragmentC scores[kStepTiles] = {};
    const Rows& keys = widen_step(key_buffer(step));
    if (sees_keys) multiply_keys(keys, scores);
    sync_block();
    if constexpr (kHasOneBuffer) {
      copy_step(block, block.v, key_buffer(step), step);
    } else {
      copy_if(block, block.k, key_buffer(step), step + kStepsAhead);
    }
    if (sees_keys) {
      weigh_scores<0>(block, first, scores, state);
      // Scores of rows that the tile lacks stay: each row of the products is made of one of scores.
      if (!kSplits || block.tile.rows > 8) weigh_scores<1>(block, first, scores, state);
    }
    wait_copies<kGroupsBehind>();
    sync_block();
    const Rows& values = widen_step(value_buffer(step));
    if (sees_keys) add_values(values, scores, state);
    if (is_last) return;
    sync_block();
    if constexpr (kHasOneBuffer) {
      copy_step(block, block.k, key_buffer(step), step + 1);
    } else {
      copy_if(block, block.v, value_buffer(step), step + kStepsAhead);
    }
  }

  static CAPTION_DEVICE void multiply_keys(const Rows& keys, FragmentC (&scores)[kStepTiles]) {
    const int lane = lane_index();
    for (int k = 0; k < kDimTiles; ++k) {
      const FragmentA q =
          ldmatrix_x4(&shared().q[warp_index() * 16 + lane % 16][2 * k + lane / 16]);
      for (int n = 0; n < kStepTiles; n += 2) {
        const FragmentA both =
            ldmatrix_x4(&keys[n * 8 + lane % 8 + lane / 16 * 8][2 * k + lane / 8 % 2]);
        multiply(T{}, scores[n], q, {{both.pair[0], both.pair[1]}});
        multiply(T{}, scores[n + 1], q, {{both.pair[2], both.pair[3]}});
      }
    }
  }

  // Makes probabilities of the scores of one of the lane's rows, and corrects its state for the new
  // maximum.
  template <int kHalf>
  static CAPTION_DEVICE void weigh_scores(const Block& block, int first,
                                          FragmentC (&scores)[kStepTiles], State& state) {
    const int column = lane_index() % 4 * 2;
    scale_scores<kHalf>(block, first, scores);
    if (first < block.all.begin || first + kStepKeys > block.all.end) {
      for (int n = 0; n < kStepTiles; ++n) {
        for (int e = 0; e < 2; ++e) {
          const bool is_seen = block.row_keys[kHalf].contains(first + n * 8 + column + e);
          float& score = scores[n].sum[2 * kHalf + e];
          score = is_seen ? score : kNoScore;
        }
      }
    }
    float largest = kNoScore;
    for (int n = 0; n < kStepTiles; ++n) {
      for (int e = 0; e < 2; ++e) largest = larger(scores[n].sum[2 * kHalf + e], largest);
    }
    for (int mask = 1; mask < 4; mask *= 2) largest = larger(shuffle_xor(largest, mask), largest);
    RowState& row = state.row[kHalf];
    const float max = larger(largest, row.max);
    // A row that has seen no key gets probabilities of 0, too.
    const float base = max == kNoScore ? 0.0F : max;
    const float correction = power_of_two(row.max - base);
    float sum = 0;
    for (int n = 0; n < kStepTiles; ++n) {
      for (int e = 0; e < 2; ++e) {
        float& score = scores[n].sum[2 * kHalf + e];
        score = power_of_two(score - base);
        sum += score;
      }
    }
    if constexpr (kIsInt8) {
      const float* const scales = scales_of(shared().v_scales, first) + column;
      for (int n = 0; n < kStepTiles; ++n) {
        for (int e = 0; e < 2; ++e) scores[n].sum[2 * kHalf + e] *= load(scales + n * 8 + e);
      }
    }
    row = {max, fused(row.sum, correction, sum)};
    for (int n = 0; n < 2 * kDimTiles; ++n) {
      for (int e = 0; e < 2; ++e) state.output[n].sum[2 * kHalf + e] *= correction;
    }
  }

  template <int kHalf>
  static CAPTION_DEVICE void scale_scores(const Block& block, int first,
                                          FragmentC (&scores)[kStepTiles]) {
    for (int n = 0; n < kStepTiles; ++n) {
      for (int e = 0; e < 2; ++e) {
        float& score = scores[n].sum[2 * kHalf + e];
        if constexpr (kIsInt8) {
          const float* const factors = scales_of(shared().factors, first);
          score *= load(factors + n * 8 + lane_index() % 4 * 2 + e);
        } else {
          score *= block.factor;
        }
      }
    }
  }

  // Those of a step, which begins at position `first`.
  static CAPTION_DEVICE const float* scales_of(const float* scales, int first) {
    return scales + first % kSlots;
  }

  static CAPTION_DEVICE void add_values(const Rows& values, const FragmentC (&scores)[kStepTiles],
                                        State& state) {
    const int lane = lane_index();
    for (int k = 0; k < kStepTiles / 2; ++k) {
      const float(&low)[4] = scores[2 * k].sum;
      const float(&high)[4] = scores[2 * k + 1].sum;
      const FragmentA probabilities = {{pair_of(T{}, low[0], low[1]), pair_of(T{}, low[2], low[3]),
                                        pair_of(T{}, high[0], high[1]),
                                        pair_of(T{}, high[2], high[3])}};
      for (int n = 0; n < kDimTiles; ++n) {
        const FragmentA both = ldmatrix_x4_trans(&values[k * 16 + lane % 16][2 * n + lane / 16]);
        multiply(T{}, state.output[2 * n], probabilities, {{both.pair[0], both.pair[1]}});
        multiply(T{}, state.output[2 * n + 1], probabilities, {{both.pair[2], both.pair[3]}});
      }
    }
  }

  // Adds the lanes' sums of a row, and makes its maximum that of scores.
  static CAPTION_DEVICE void finish_split(State& state) {
    for (int half = 0; half < 2; ++half) {
      RowState& row = state.row[half];
      for (int mask = 1; mask < 4; mask *= 2) row.sum += shuffle_xor(row.sum, mask);
      row.max *= kLn2;
    }
  }

  static CAPTION_DEVICE void fold_states(State& total, const State& state) {
    const FoldFactors upper = fold(total.row[0], state.row[0]);
    const FoldFactors lower = fold(total.row[1], state.row[1]);
    for (int n = 0; n < 2 * kDimTiles; ++n) {
      float(&sums)[4] = total.output[n].sum;
      const float(&next)[4] = state.output[n].sum;
      sums[0] = fused(sums[0], upper.first, next[0] * upper.second);
      sums[1] = fused(sums[1], upper.first, next[1] * upper.second);
      sums[2] = fused(sums[2], lower.first, next[2] * lower.second);
      sums[3] = fused(sums[3], lower.first, next[3] * lower.second);
    }
  }

  static CAPTION_DEVICE int row_of(int half) {
    return warp_index() * 16 + lane_index() / 4 + half * 8;
  }

  template <int kHalf>
  static CAPTION_DEVICE void store_state(const Block& block, int split, const State& state) {
    const Params& p = block.p;
    const int row_of_tile = row_of(kHalf);
    if (row_of_tile >= block.tile.rows) return;
    const VectorPlace vector = block.tile.vector(p, block.kv_head, row_of_tile);
    float* const to = p.state(vector, split - block.tile.sequence.first_split(p));
    for (int n = 0; n < 2 * kDimTiles; ++n) {
      const int d = n * 8 + lane_index() % 4 * 2;
      const float(&sums)[4] = state.output[n].sum;
      if (d < p.head_dim) {
        store(reinterpret_cast<Packed<float, 2>*>(to + d), {sums[2 * kHalf], sums[2 * kHalf + 1]});
      }
    }
    // The row's four lanes write a whole sector, of which the first has the state.
    const int lane = lane_index() % 4;
    const RowState row = lane == 0 ? state.row[kHalf] : RowState{};
    store(reinterpret_cast<Packed<float, 2>*>(to + p.state_sums()) + lane, {row.max, row.sum});
  }

  // Stores the outputs of the lane's rows, whose total is in memory.
  static CAPTION_DEVICE void store_outputs(const Block& block) {
    const Params& p = block.p;
    const auto pair_bytes = static_cast<std::uintptr_t>(p.y.dtype == DType::kF32 ? 8 : 4);
    const bool has_pairs =
        reinterpret_cast<std::uintptr_t>(p.y.begin) % pair_bytes == 0 && p.y_stride % 2 == 0;
    CAPTION_NO_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = row_of(half);
      if (row >= block.tile.rows) return;
      const float* number = &total_memory()[0][thread_index()];
      const float sum = load(number + (2 * half + 1) * kThreads);
      number += (4 + 2 * half) * kThreads;
      const std::int64_t to = p.output_offset(block.tile.vector(p, block.kv_head, row));
      CAPTION_NO_UNROLL
      for (int d = lane_index() % 4 * 2; d < p.head_dim; d += 8) {
        const float low = finished(load(number), sum);
        const float high = finished(load(number + kThreads), sum);
        number += 4 * kThreads;
        if (has_pairs) {
          store_numbers<2>(p.y, to + d, {low, high});
        } else {
          store_numbers<1>(p.y, to + d, {low});
          store_numbers<1>(p.y, to + d + 1, {high});
        }
      }
    }
  }
};

}  // namespace caption::kernels::cuda
