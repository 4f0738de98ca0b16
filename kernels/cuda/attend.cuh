// kernels/cuda/attend.cuh: what the kernels of attention() and paged_attention() share: operands,
// tiles of query rows, and the states of the online softmax (arXiv:1805.02867).
//
// A query's sums have one order for any chunking, batch and page size. Keys are cut into splits of
// positions counted from 0, and a split into steps counted from its first position. A split is
// attended from an empty state, step by step; a row's splits are folded in their order. The splits
// from kLongSplits on are longer: a short context has enough splits to keep a GPU busy, and a long
// one has few enough to be folded in little time. One block may do this for all splits of a
// row, or a block for each split and the last of them the folds (fold_splits.cuh): the operations
// are the same. A step or split of which a row sees no key changes nothing: its factors are 1 and
// its sums 0. The only trace of it may be the sign of a zero, which finished() removes.
#pragma once

#include <cstdint>

#include "kernels/cuda/math.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/primitives.cuh"

namespace caption::kernels::cuda {

inline constexpr int kShortSplitKeys = 256;
inline constexpr int kLongSplitKeys = 512;
inline constexpr int kLongSplits = 4;  // the first long split
inline constexpr int kLongSplitsBegin = kLongSplits * kShortSplitKeys;
// A long split begins with a multiple of its length.
static_assert(kLongSplitsBegin % kLongSplitKeys == 0);
inline constexpr int kSplitRows = 16;  // rows of a tile where each split has a block
// The maximum of no scores. It is finite: differences of it are no NaN.
inline constexpr float kNoScore = -0x1.fffffep127F;

// The place of a vector of q and y, which are [T, heads, head_dim].
struct VectorPlace {
  std::int64_t row;
  int head;
};

// The operands of paged attention (a batch of sequences, causal, maybe with a window) if
// block_tables is not null, else those of dense attention: num_seqs frames, of which every row sees
// all kv_len keys.
struct AttendParams {
  const float* q = nullptr;  // [T, heads, head_dim]
  Numbers y = {};            // the same shape
  const void* k = nullptr;   // [slots, kv_heads, head_dim]
  const void* v = nullptr;
  const BF16* k_scales = nullptr;  // [slots, kv_heads] with i8, else null
  const BF16* v_scales = nullptr;
  const std::int32_t* cu_seqlens = nullptr;    // [num_seqs + 1]
  const std::int32_t* context_lens = nullptr;  // [num_seqs]
  const std::int32_t* block_tables = nullptr;  // [num_seqs, table_stride]
  // [T * heads, num_splits, state_sums() + 8]: a row's unfolded states, from the first split that
  // its sequence's first row sees: output [head_dim], at state_sums() maximum and sum. Null: a
  // block folds all splits of its rows.
  float* states = nullptr;
  // With states, [tiles, kv_heads]: 0 before and after a launch; within it, the blocks of a tile
  // that have stored their states.
  std::uint32_t* arrived = nullptr;
  std::int64_t q_stride = 0;  // elements between the rows
  std::int64_t y_stride = 0;
  std::int64_t kv_stride = 0;  // between slots
  DType kv_dtype = DType::kF32;
  int rows = 0;  // T
  int num_seqs = 0;
  int heads = 0;
  int kv_heads = 0;
  int group = 0;  // heads / kv_heads
  int head_dim = 0;
  int table_stride = 0;
  int page_tokens = 0;
  int seq_len = 0;     // rows of a frame
  int kv_len = 0;      // keys of a frame; of a sequence at most
  int window = 0;      // 0: none
  int num_splits = 0;  // at most, of a row
  float scale = 0;

  CAPTION_DEVICE const float* query(const VectorPlace& at) const {
    return q + at.row * q_stride + std::int64_t{at.head} * head_dim;
  }
  CAPTION_DEVICE std::int64_t output_offset(const VectorPlace& at) const {
    return at.row * y_stride + std::int64_t{at.head} * head_dim;
  }
  CAPTION_DEVICE float* state(const VectorPlace& at, int split) const {
    const std::int64_t vector = at.row * heads + at.head;
    return states + (vector * num_splits + split) * (state_sums() + 8);
  }
  // States are whole sectors of 8 numbers.
  CAPTION_DEVICE int state_sums() const { return (head_dim + 7) / 8 * 8; }
};

// Returns the split that has a position.
CAPTION_DEVICE int split_of(int position) {
  if (position < kLongSplitsBegin) return position / kShortSplitKeys;
  return kLongSplits + (position - kLongSplitsBegin) / kLongSplitKeys;
}
// Returns a split's first position.
CAPTION_DEVICE int begin_of_split(int split) {
  if (split < kLongSplits) return split * kShortSplitKeys;
  return kLongSplitsBegin + (split - kLongSplits) * kLongSplitKeys;
}

struct KeyRange {
  int begin;
  int end;

  CAPTION_DEVICE bool contains(int position) const { return begin <= position && position < end; }
};

struct Sequence {
  int index;
  int first_token;     // row of q
  int num_tokens;      // the sequence's tokens in this call
  int first_position;  // the first token's position

  // The keys that a token of the sequence sees.
  CAPTION_DEVICE KeyRange keys_of(const AttendParams& p, int token) const {
    if (p.block_tables == nullptr) return {0, p.kv_len};
    const int end = first_position + token + 1;
    return {p.window > 0 && end > p.window ? end - p.window : 0, end};
  }
  // Where states of the sequence's rows begin.
  CAPTION_DEVICE int first_split(const AttendParams& p) const {
    return split_of(keys_of(p, 0).begin);
  }
  CAPTION_DEVICE int slot(const AttendParams& p, int position) const {
    if (p.block_tables == nullptr) return index * p.kv_len + position;
    const std::int64_t entry =
        static_cast<std::int64_t>(index) * p.table_stride + position / p.page_tokens;
    return load(p.block_tables + entry) * p.page_tokens + position % p.page_tokens;
  }
};

// Adjacent rows of a sequence for one key head. Row r of a sequence is query head r % group of
// token r / group.
struct Tile {
  Sequence sequence;
  int first_row;
  int rows;  // 0: there is no such tile

  CAPTION_DEVICE int token(const AttendParams& p, int row) const {
    return (first_row + row) / p.group;
  }
  CAPTION_DEVICE KeyRange keys_of(const AttendParams& p, int row) const {
    return sequence.keys_of(p, token(p, row));
  }
  // The keys that at least one of the rows sees.
  CAPTION_DEVICE KeyRange keys(const AttendParams& p) const {
    return {keys_of(p, 0).begin, keys_of(p, rows - 1).end};
  }
  // The row's vector of q and y.
  CAPTION_DEVICE VectorPlace vector(const AttendParams& p, int kv_head, int row) const {
    const int of_sequence = token(p, row);
    return {sequence.first_token + of_sequence,
            kv_head * p.group + first_row + row - of_sequence * p.group};
  }
};

CAPTION_DEVICE Tile cut_tile(const Sequence& sequence, int group, int number, int tile_rows) {
  const int left = sequence.num_tokens * group - number * tile_rows;
  return {sequence, number * tile_rows, left < tile_rows ? left : tile_rows};
}

CAPTION_DEVICE int shuffle_int(int x, int lane) {
  return static_cast<int>(shuffle(static_cast<std::uint32_t>(x), lane));
}

// The sum of x over the lanes up to this one.
CAPTION_DEVICE int sum_up_to_lane(int x) {
  for (int distance = 1; distance < 32; distance *= 2) {
    const int before = shuffle_int(x, (lane_index() + 32 - distance) % 32);
    x += lane_index() >= distance ? before : 0;
  }
  return x;
}

// Tile `number` of the batch, whose sequences are cut into tiles of tile_rows one after another.
// All lanes of a warp call it with the same arguments.
CAPTION_DEVICE Tile find_tile(const AttendParams& p, int number, int tile_rows) {
  const int group = p.group;
  if (p.block_tables == nullptr) {
    const int per_frame = (p.seq_len * group + tile_rows - 1) / tile_rows;
    const int frame = number / per_frame;
    return cut_tile({frame, frame * p.seq_len, p.seq_len, 0}, group, number % per_frame, tile_rows);
  }
  int before = 0;  // tiles of the sequences before first
  for (int first = 0; first < p.num_seqs; first += 32) {
    const int s = first + lane_index();
    Sequence sequence{s, 0, 0, 0};
    if (s < p.num_seqs) {
      sequence.first_token = load(p.cu_seqlens + s);
      sequence.num_tokens = load(p.cu_seqlens + s + 1) - sequence.first_token;
      sequence.first_position = load(p.context_lens + s) - sequence.num_tokens;
    }
    const int tiles = (sequence.num_tokens * group + tile_rows - 1) / tile_rows;
    const int end = before + sum_up_to_lane(tiles);
    const std::uint32_t is_behind = vote(number < end);
    if (is_behind != 0) {
      int lane = 0;
      while ((is_behind >> lane & 1u) == 0) ++lane;
      sequence = {first + lane, shuffle_int(sequence.first_token, lane),
                  shuffle_int(sequence.num_tokens, lane),
                  shuffle_int(sequence.first_position, lane)};
      return cut_tile(sequence, group, number - shuffle_int(end - tiles, lane), tile_rows);
    }
    before = shuffle_int(end, 31);
  }
  return {};
}

// Returns the splits that have the keys; `keys` has one at least.
CAPTION_DEVICE KeyRange splits_of(const KeyRange& keys) {
  return {split_of(keys.begin), split_of(keys.end - 1) + 1};
}

// The splits that a block attends to, [first, end).
CAPTION_DEVICE KeyRange splits_of_block(const AttendParams& p, const Tile& tile) {
  const KeyRange all = splits_of(tile.keys(p));
  if (p.states == nullptr) return all;
  const int split = tile.sequence.first_split(p) + block_z();
  return {split, all.contains(split) ? split + 1 : split};
}

// The state of a row's online softmax, but for its output.
struct RowState {
  float max = kNoScore;
  float sum = 0;
};

// Factors of two states, of their sums and outputs, when they are folded to one.
struct FoldFactors {
  float first;
  float second;
};

// Folds `next` into `state` and returns the factors for the outputs, whose fold is
// fused(output, first, next_output * second).
CAPTION_DEVICE FoldFactors fold(RowState& state, const RowState& next) {
  const float max = next.max > state.max ? next.max : state.max;
  const FoldFactors factors{exponential(state.max - max), exponential(next.max - max)};
  state = {max, fused(state.sum, factors.first, next.sum * factors.second)};
  return factors;
}

// Adding 0 turns -0 into 0.
CAPTION_DEVICE float finished(float output, float sum) { return divide(output, sum) + 0.0F; }

}  // namespace caption::kernels::cuda
