// kernels/cuda/attend_tiles.cuh: attention on tensor cores, for keys of bf16, f16 and i8.
//
// A warp attends 16 query rows, 64 keys at a time: scores and probabilities are fragments of
// m16n8k16, so that the probabilities of a step are the first factor of the second product without
// leaving their registers. Four warps share the keys of 64 rows and fold the splits; for few rows a
// block is one warp for each split. What a warp does for a split is the same in both.
//
// Traffic    the keys and values of a tile once per 64 rows, or 16.
// In flight  a tile of 64 keys or values per block: 16 KB with 128 dimensions of 16 bits.
// Numerics   queries and probabilities are rounded to the keys' dtype, with i8 to bf16; sums are
//            f32 in the tensor core's order. The exponential is within 2^-18, which is below half a
//            unit of f16.
// Measured on no GPU.
#pragma once

#include <type_traits>

#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/attend.h"
#include "kernels/cuda/launch.cuh"

namespace caption::kernels::cuda {

inline constexpr int kStepKeys = 64;
inline constexpr int kStepsOfSplit = kSplitKeys / kStepKeys;
inline constexpr int kStepTiles = kStepKeys / 8;  // fragments of scores in a step
inline constexpr float kLog2E = 0x1.715476p0F;
inline constexpr float kLn2 = 0x1.62e430p-1F;

CAPTION_DEVICE void multiply(BF16, FragmentC& c, const FragmentA& a, const FragmentB& b) {
  mma_bf16(c, a, b);
}
CAPTION_DEVICE void multiply(F16, FragmentC& c, const FragmentA& a, const FragmentB& b) {
  mma_f16(c, a, b);
}

template <class T>
CAPTION_DEVICE std::uint32_t pair_of(float low, float high) {
  T pair[2];
  narrow(low, pair[0]);
  narrow(high, pair[1]);
  return pair[0].bits | static_cast<std::uint32_t>(pair[1].bits) << 16;
}

// Element is the type of keys and values: T, or i8 with T = bf16. Heads have up to 16 * kDimTiles
// dimensions. With kSplits a block is a warp that attends one split and stores its state.
template <class T, class Element, int kDimTiles, bool kSplits>
struct AttendTiles {
  static constexpr int kWarps = kSplits ? 1 : 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kTileRows = 16 * kWarps;
  static constexpr int kDim = 16 * kDimTiles;
  static constexpr bool kIsInt8 = sizeof(Element) == 1;
  static constexpr int kPacksOfElements = kDim * static_cast<int>(sizeof(Element)) / 16;
  // An odd number of packs of 16 bytes in a row: eight adjacent rows are in different banks.
  static constexpr int kRowPacks = kDim / 8 + 1;
  static constexpr int kScales = kIsInt8 ? kSplitKeys : 1;
  // Where there are not enough registers for the state of a split and that of all before it, the
  // latter is in shared memory meanwhile.
  static constexpr bool kKeepsTotal = kSplits || !kIsInt8 || kDimTiles < 8;
  static constexpr int kTotalNumbers = kKeepsTotal ? 1 : 4 + 8 * kDimTiles;
  using Params = AttendParams;
  using Rows = Bytes16[kStepKeys][kRowPacks];
  struct Shared {
    Bytes16 q[kTileRows][kRowPacks];
    Bytes16 keys[kStepKeys][kIsInt8 ? kPacksOfElements : kRowPacks];
    Bytes16 values[kStepKeys][kIsInt8 ? kPacksOfElements : kRowPacks];
    Bytes16 widened[kIsInt8 ? kStepKeys : 1][kRowPacks];  // keys or values
    // For each position of two splits, the even one and the odd one:
    int slots[2][kSplitKeys];
    float factors[2][kScales];   // multiply the scores
    float v_scales[2][kScales];  // 0 where no row of the tile sees the key
    float total[kTotalNumbers][kKeepsTotal ? 1 : kThreads];
  };
  // State of the lane's two rows; output tile n has the dimensions 8 n .. 8 n + 7.
  struct State {
    RowState row[2];
    FragmentC output[2 * kDimTiles] = {};
  };
  struct Block {
    const Params& p;
    Shared& shared;
    Tile tile;
    KeyRange keys;
    KeyRange steps;  // counted from position 0
    int kv_head;
    // The keys that any of the warp's rows sees, those that all of them see, and those that each of
    // the lane's two rows sees.
    KeyRange some;
    KeyRange all;
    KeyRange row_keys[2];
  };

  static CAPTION_DEVICE void run(const Params& p) {
    const Tile tile = find_tile(p, block_x(), kTileRows);
    if (tile.rows == 0) return;
    const KeyRange splits = splits_of_block(p, tile);
    if (splits.begin == splits.end) return;
    const Block block = block_of(p, tile, splits);
    load_queries(block);
    find_slots(block, splits.begin);
    sync_block();
    copy_step(block, p.k, block.shared.keys, block.steps.begin);
    State total;
    State state;
    bool has_total = false;
    for (int step = block.steps.begin; step < block.steps.end; ++step) {
      attend_step(block, step, state);
      const bool is_last = step + 1 == block.steps.end || (step + 1) % kStepsOfSplit == 0;
      if (!is_last || block.some.begin >= block.some.end) continue;
      finish_split(state);
      if constexpr (kSplits) {
        store_state<0>(block, splits.begin, state);
        store_state<1>(block, splits.begin, state);
      } else {
        if (!kKeepsTotal) total = {};
        if (!kKeepsTotal && has_total) load_total(block.shared, total);
        fold_states(total, state);
        if (!kKeepsTotal) store_total(block.shared, total);
        has_total = true;
        state = {};
      }
    }
    if (kSplits || block.some.begin >= block.some.end) return;
    if (!kKeepsTotal) load_total(block.shared, total);
    store_outputs<0>(block, total);
    store_outputs<1>(block, total);
  }

  // A thread's numbers are its own: no barrier is needed.
  static CAPTION_DEVICE void load_total(const Shared& shared, State& total) {
    const int thread = thread_index();
    for (int half = 0; half < 2; ++half) {
      total.row[half] = {load(&shared.total[2 * half][thread]),
                         load(&shared.total[2 * half + 1][thread])};
    }
    for (int i = 0; i < 8 * kDimTiles; ++i) {
      total.output[i / 4].sum[i % 4] = load(&shared.total[4 + i][thread]);
    }
  }
  static CAPTION_DEVICE void store_total(Shared& shared, const State& total) {
    const int thread = thread_index();
    for (int half = 0; half < 2; ++half) {
      store(&shared.total[2 * half][thread], total.row[half].max);
      store(&shared.total[2 * half + 1][thread], total.row[half].sum);
    }
    for (int i = 0; i < 8 * kDimTiles; ++i) {
      store(&shared.total[4 + i][thread], total.output[i / 4].sum[i % 4]);
    }
  }

  static CAPTION_DEVICE Block block_of(const Params& p, const Tile& tile, const KeyRange& splits) {
    const KeyRange keys = tile.keys(p);
    const int first = splits.begin * kSplitKeys;
    const int end = splits.end * kSplitKeys < keys.end ? splits.end * kSplitKeys : keys.end;
    const KeyRange steps{(keys.begin > first ? keys.begin : first) / kStepKeys,
                         (end + kStepKeys - 1) / kStepKeys};
    Block block{p, shared_memory<Shared>(), tile, keys, steps, block_y(), {}, {}, {}};
    const int first_row = warp_index() * 16;
    if (first_row >= tile.rows) return block;  // the warp has no rows: it copies only
    const int last_row = first_row + 15 < tile.rows ? first_row + 15 : tile.rows - 1;
    const KeyRange of_first = tile.keys_of(p, first_row);
    const KeyRange of_last = tile.keys_of(p, last_row);
    block.some = {of_first.begin, of_last.end};
    block.all = {of_last.begin, of_first.end};
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + lane_index() / 4 + half * 8;
      block.row_keys[half] = tile.keys_of(p, row < last_row ? row : last_row);
    }
    return block;
  }

  // Rows and dimensions that do not exist are zeros.
  static CAPTION_DEVICE void load_queries(const Block& block) {
    const Params& p = block.p;
    const bool has_packs = reinterpret_cast<std::uintptr_t>(p.q) % 16 == 0 && p.q_stride % 4 == 0;
    for (int i = thread_index(); i < kTileRows * kDim / 4; i += kThreads) {
      const int row = i / (kDim / 4);
      const int d = i % (kDim / 4) * 4;
      Packed<float, 4> x{};
      if (row < block.tile.rows && d < p.head_dim) {
        const float* const from = p.query(block.tile.vector(p, block.kv_head, row)) + d;
        if (has_packs) {
          x = load(reinterpret_cast<const Packed<float, 4>*>(from));
        } else {
          for (int e = 0; e < 4; ++e) x.x[e] = load(from + e);
        }
      }
      Packed<T, 4> rounded;
      for (int e = 0; e < 4; ++e) narrow(x.x[e], rounded.x[e]);
      store(reinterpret_cast<Packed<T, 4>*>(&block.shared.q[row][d / 8]) + d / 4 % 2, rounded);
    }
  }

  static CAPTION_DEVICE void find_slots(const Block& block, int split) {
    const Params& p = block.p;
    for (int i = thread_index(); i < kSplitKeys; i += kThreads) {
      const int position = split * kSplitKeys + i;
      if (!block.keys.contains(position)) {
        if constexpr (kIsInt8) block.shared.v_scales[split % 2][i] = 0;
        continue;
      }
      const int slot = block.tile.sequence.slot(p, position);
      block.shared.slots[split % 2][i] = slot;
      if constexpr (kIsInt8) {
        const std::int64_t vector = static_cast<std::int64_t>(slot) * p.kv_heads + block.kv_head;
        block.shared.factors[split % 2][i] = p.scale * widen(load(p.k_scales + vector)) * kLog2E;
        block.shared.v_scales[split % 2][i] = widen(load(p.v_scales + vector));
      }
    }
  }

  // Begins the copy of a step's keys or values; zeros where no row of the tile sees a key and
  // beyond the head's dimensions.
  template <int kPacks>
  static CAPTION_DEVICE void copy_step(const Block& block, const void* from,
                                       Bytes16 (&to)[kStepKeys][kPacks], int step) {
    const Params& p = block.p;
    constexpr int kElements = 16 / static_cast<int>(sizeof(Element));  // elements of a pack
    const int* const slots = block.shared.slots[step / kStepsOfSplit % 2];
    for (int i = thread_index(); i < kStepKeys * kPacksOfElements; i += kThreads) {
      const int key = i / kPacksOfElements;
      const int d = i % kPacksOfElements * kElements;
      const int position = step * kStepKeys + key;
      const auto* source = static_cast<const Element*>(from);
      const bool is_inside = block.keys.contains(position) && d < p.head_dim;
      if (is_inside) {
        source += slots[position % kSplitKeys] * p.kv_stride + block.kv_head * p.head_dim + d;
      }
      copy_16_async(&to[key][d / kElements], source, is_inside);
    }
    commit_copies();
  }

  // Makes bf16 of i8, which is exact. The block's threads call it between barriers.
  template <int kPacks>
  static CAPTION_DEVICE const Rows& widen_step(const Block& block,
                                               const Bytes16 (&from)[kStepKeys][kPacks]) {
    if constexpr (kIsInt8) {
      for (int i = thread_index(); i < kStepKeys * kDim / 8; i += kThreads) {
        const int key = i / (kDim / 8);
        const int pack = i % (kDim / 8);
        const auto codes = load(reinterpret_cast<const Packed<std::int8_t, 8>*>(
            reinterpret_cast<const std::int8_t*>(from[key]) + pack * 8));
        Bytes16 wide;
        for (int w = 0; w < 4; ++w) {
          wide.word[w] = pair_of<T>(codes.x[2 * w], codes.x[2 * w + 1]);
        }
        store(&block.shared.widened[key][pack], wide);
      }
      sync_block();
      return block.shared.widened;
    } else {
      return from;
    }
  }

  static CAPTION_DEVICE void attend_step(const Block& block, int step, State& state) {
    const Params& p = block.p;
    Shared& shared = block.shared;
    const int first = step * kStepKeys;
    const bool sees_keys = first < block.some.end && first + kStepKeys > block.some.begin;
    wait_copies<0>();
    sync_block();
    copy_step(block, p.v, shared.values, step);
    // The next split's slots are needed after the next barrier.
    const int split = step / kStepsOfSplit;
    const bool is_first = step == block.steps.begin || step % kStepsOfSplit == 0;
    if (is_first && (split + 1) * kStepsOfSplit < block.steps.end) find_slots(block, split + 1);
    FragmentC scores[kStepTiles] = {};
    const Rows& keys = widen_step(block, shared.keys);
    if (sees_keys) {
      multiply_keys(block, keys, scores);
      weigh_scores<0>(block, first, scores, state);
      weigh_scores<1>(block, first, scores, state);
    }
    wait_copies<0>();
    sync_block();
    if (step + 1 < block.steps.end) copy_step(block, p.k, shared.keys, step + 1);
    const Rows& values = widen_step(block, shared.values);
    if (sees_keys) add_values(values, scores, state);
  }

  static CAPTION_DEVICE void multiply_keys(const Block& block, const Rows& keys,
                                           FragmentC (&scores)[kStepTiles]) {
    const int lane = lane_index();
    for (int k = 0; k < kDimTiles; ++k) {
      const FragmentA q =
          ldmatrix_x4(&block.shared.q[warp_index() * 16 + lane % 16][2 * k + lane / 16]);
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
    const bool is_partial = first < block.all.begin || first + kStepKeys > block.all.end;
    const int column = lane_index() % 4 * 2;
    const int buffer = first / kSplitKeys % 2;
    float largest = kNoScore;
    for (int n = 0; n < kStepTiles; ++n) {
      for (int e = 0; e < 2; ++e) {
        float& score = scores[n].sum[2 * kHalf + e];
        const int position = first + n * 8 + column + e;
        const bool is_seen = !is_partial || block.row_keys[kHalf].contains(position);
        score = is_seen ? score * factor_of(block, buffer, position) : kNoScore;
        largest = score > largest ? score : largest;
      }
    }
    for (int mask = 1; mask < 4; mask *= 2) {
      const float other = shuffle_xor(largest, mask);
      largest = other > largest ? other : largest;
    }
    RowState& row = state.row[kHalf];
    const float max = largest > row.max ? largest : row.max;
    // A row that has seen no key gets probabilities of 0, too.
    const float base = max == kNoScore ? 0.0F : max;
    const float correction = power_of_two(row.max - base);
    float sum = 0;
    for (int n = 0; n < kStepTiles; ++n) {
      for (int e = 0; e < 2; ++e) {
        float& score = scores[n].sum[2 * kHalf + e];
        const float probability = power_of_two(score - base);
        sum += probability;
        score = probability * v_scale_of(block, buffer, first + n * 8 + column + e);
      }
    }
    row = {max, fused(row.sum, correction, sum)};
    for (int n = 0; n < 2 * kDimTiles; ++n) {
      for (int e = 0; e < 2; ++e) state.output[n].sum[2 * kHalf + e] *= correction;
    }
  }

  static CAPTION_DEVICE float factor_of(const Block& block, int buffer, int position) {
    if constexpr (kIsInt8) return block.shared.factors[buffer][position % kSplitKeys];
    return block.p.scale * kLog2E;
  }
  static CAPTION_DEVICE float v_scale_of(const Block& block, int buffer, int position) {
    if constexpr (kIsInt8) return block.shared.v_scales[buffer][position % kSplitKeys];
    return 1.0F;
  }

  static CAPTION_DEVICE void add_values(const Rows& values, const FragmentC (&scores)[kStepTiles],
                                        State& state) {
    const int lane = lane_index();
    for (int k = 0; k < kStepTiles / 2; ++k) {
      const float(&low)[4] = scores[2 * k].sum;
      const float(&high)[4] = scores[2 * k + 1].sum;
      const FragmentA probabilities = {{pair_of<T>(low[0], low[1]), pair_of<T>(low[2], low[3]),
                                        pair_of<T>(high[0], high[1]),
                                        pair_of<T>(high[2], high[3])}};
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

  // The vector of a row of the lane; -1 if it has none.
  static CAPTION_DEVICE int vector_of(const Block& block, int half) {
    const int row = warp_index() * 16 + lane_index() / 4 + half * 8;
    return row < block.tile.rows ? block.tile.vector(block.p, block.kv_head, row) : -1;
  }

  template <int kHalf>
  static CAPTION_DEVICE void store_state(const Block& block, int split, const State& state) {
    const Params& p = block.p;
    const int vector = vector_of(block, kHalf);
    if (vector < 0) return;
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

  template <int kHalf>
  static CAPTION_DEVICE void store_outputs(const Block& block, const State& state) {
    const Params& p = block.p;
    const int vector = vector_of(block, kHalf);
    if (vector < 0) return;
    const auto pair_bytes = static_cast<std::uintptr_t>(p.y.dtype == DType::kF32 ? 8 : 4);
    const bool has_pairs =
        reinterpret_cast<std::uintptr_t>(p.y.begin) % pair_bytes == 0 && p.y_stride % 2 == 0;
    const float sum = state.row[kHalf].sum;
    for (int n = 0; n < 2 * kDimTiles; ++n) {
      const int d = n * 8 + lane_index() % 4 * 2;
      const std::int64_t to = p.output_offset(vector) + d;
      const float low = finished(state.output[n].sum[2 * kHalf], sum);
      const float high = finished(state.output[n].sum[2 * kHalf + 1], sum);
      if (d < p.head_dim && has_pairs) {
        store_numbers<2>(p.y, to, {low, high});
      } else if (d < p.head_dim) {
        store_numbers<1>(p.y, to, {low});
        store_numbers<1>(p.y, to + 1, {high});
      }
    }
  }
};

}  // namespace caption::kernels::cuda
