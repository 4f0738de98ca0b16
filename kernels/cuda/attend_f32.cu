// Attention whose products are f32, for keys of every dtype and heads of any dimension.
//
// A block attends 16 query rows of one key head to its splits, 32 keys at a time, in shared memory.
// A lane has a key's scores for the rows of its warp, and then the dimensions d % 32 == lane of
// their outputs.
//
// Traffic  the keys and values of a tile once per 16 rows; at most 1/2 byte per multiplication.
// Measured on no GPU.
#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/attend.h"
#include "kernels/cuda/fold_splits.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/internal/attention_limits.h"

namespace caption::kernels::cuda {
namespace {

constexpr int kRowsWarps = 4;
constexpr int kRowsThreads = 32 * kRowsWarps;
constexpr int kWarpRows = 4;
constexpr int kTileRows = kRowsWarps * kWarpRows;  // row r belongs to warp r % kRowsWarps
static_assert(kTileRows == kSplitRows);
constexpr int kStepKeys = 32;

// Packs of four dimensions.
CAPTION_DEVICE int count_packs(int head_dim) { return (head_dim + 3) / 4; }

CAPTION_DEVICE float max_of_warp(float x) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const float other = shuffle_xor(x, mask);
    x = other > x ? other : x;
  }
  return x;
}

// The elements [first, first + kPack) of keys or values, widened.
template <int kPack>
CAPTION_DEVICE Packed<float, kPack> load_keys(const void* from, DType dtype, std::int64_t first) {
  if (dtype != DType::kI8) return load_numbers<kPack>(ConstNumbers{from, dtype}, first);
  const auto* const codes = static_cast<const std::int8_t*>(from) + first;
  const auto packed = load(reinterpret_cast<const Packed<std::int8_t, kPack>*>(codes));
  Packed<float, kPack> wide;
  for (int i = 0; i < kPack; ++i) wide.x[i] = static_cast<float>(packed.x[i]);
  return wide;
}

// Heads of up to 32 * kGroups dimensions. With kPack = 4 every vector of keys and values is aligned
// to four elements, with 1 to its elements.
template <int kGroups, int kPack>
struct AttendRows {
  static constexpr int kThreads = kRowsThreads;
  static constexpr int kMostDim = 32 * kGroups;
  using Params = AttendParams;
  using Pack4 = Packed<float, 4>;
  struct Shared {
    Pack4 q[kTileRows][kMostDim / 4];
    union {
      // One more pack per row spreads the rows over the banks.
      Pack4 keys[kStepKeys][kMostDim / 4 + 1];  // or values
      FoldMemory<kRowsWarps> fold;
    };
    Pack4 probabilities[kTileRows][kStepKeys / 4];
    // For each position of a split that the tile sees:
    int slots[kLongSplitKeys];
    float factors[kLongSplitKeys];  // multiply the scores
    float v_scales[kLongSplitKeys];
    std::uint32_t is_last;  // fold_tile(): 1 where this block is the last of the tile
  };
  // For each row of a warp:
  struct States {
    RowState row[kWarpRows];
    float output[kWarpRows][kGroups] = {};
  };
  // What a block does not change.
  struct Block {
    const Params& p;
    Shared& shared;
    Tile tile;
    KeyRange keys;
    int kv_head;
    int warp_rows;  // rows of the warp
  };

  static CAPTION_DEVICE void run(const Params& p) {
    const Tile tile = find_tile(p, block_x(), kTileRows);
    if (tile.rows == 0) return;
    const KeyRange splits = splits_of_block(p, tile);
    if (splits.begin == splits.end) return;
    const int warp_rows = (tile.rows - warp_index() + kRowsWarps - 1) / kRowsWarps;
    const Block block{p, shared_memory<Shared>(), tile, tile.keys(p), block_y(), warp_rows};
    load_queries(block);
    States total;
    for (int split = splits.begin; split < splits.end; ++split) {
      const States state = attend_split(block, split);
      if (p.states != nullptr) {
        store_states(block, split, state);
        return fold_tile(p, tile, block.shared.is_last, block.shared.fold);
      }
      for (int i = 0; i < kWarpRows; ++i) {
        const FoldFactors factors = fold(total.row[i], state.row[i]);
        for (int g = 0; g < kGroups; ++g) {
          total.output[i][g] =
              fused(total.output[i][g], factors.first, state.output[i][g] * factors.second);
        }
      }
    }
    store_outputs(block, total);
  }

  // Dimensions beyond the head's up to a multiple of four are zeros.
  static CAPTION_DEVICE void load_queries(const Block& block) {
    const Params& p = block.p;
    const int columns = count_packs(p.head_dim) * 4;
    for (int i = thread_index(); i < block.tile.rows * columns; i += kThreads) {
      const int row = i / columns;
      const int d = i % columns;
      const float* const from = p.query(block.tile.vector(p, block.kv_head, row));
      const float x = d < p.head_dim ? load(from + d) : 0.0F;
      store(&block.shared.q[row][d / 4].x[d % 4], x);
    }
  }

  static CAPTION_DEVICE States attend_split(const Block& block, int split) {
    const int split_end = begin_of_split(split + 1);
    const int end = block.keys.end < split_end ? block.keys.end : split_end;
    sync_block();
    find_slots(block, begin_of_split(split), end);
    sync_block();
    States states;
    for (int first = begin_of_split(split); first < end; first += kStepKeys) {
      if (first + kStepKeys <= block.keys.begin) continue;
      load_step(block, block.p.k, first);
      sync_block();
      // Warps of one row, as in decoding, multiply for no others.
      if (block.warp_rows > 1) {
        score_keys<kWarpRows>(block, first, states);
      } else if (block.warp_rows > 0) {
        score_keys<1>(block, first, states);
      }
      sync_block();
      load_step(block, block.p.v, first);
      sync_block();
      if (block.warp_rows > 1) {
        add_values<kWarpRows>(block, states);
      } else if (block.warp_rows > 0) {
        add_values<1>(block, states);
      }
      sync_block();
    }
    return states;
  }

  // Where shared memory has a position of the split.
  static CAPTION_DEVICE int place_of(int position) { return position % kLongSplitKeys; }

  static CAPTION_DEVICE void find_slots(const Block& block, int begin, int end) {
    const Params& p = block.p;
    for (int position = begin + thread_index(); position < end; position += kThreads) {
      if (!block.keys.contains(position)) continue;
      const int slot = block.tile.sequence.slot(p, position);
      const std::int64_t vector = static_cast<std::int64_t>(slot) * p.kv_heads + block.kv_head;
      const bool has_scales = p.k_scales != nullptr;
      const int at = place_of(position);
      block.shared.slots[at] = slot;
      block.shared.factors[at] = has_scales ? p.scale * widen(load(p.k_scales + vector)) : p.scale;
      block.shared.v_scales[at] = has_scales ? widen(load(p.v_scales + vector)) : 1.0F;
    }
  }

  // Keys that no row of the tile sees are zeros, and so are dimensions beyond the head's.
  static CAPTION_DEVICE void load_step(const Block& block, const void* from, int first) {
    const Params& p = block.p;
    const int packs = count_packs(p.head_dim) * 4 / kPack;
    for (int i = thread_index(); i < kStepKeys * packs; i += kThreads) {
      const int key = i / packs;
      const int d = i % packs * kPack;
      Packed<float, kPack> x{};
      if (block.keys.contains(first + key) && d < p.head_dim) {
        const std::int64_t slot = block.shared.slots[place_of(first + key)];
        x = load_keys<kPack>(from, p.kv_dtype, slot * p.kv_stride + block.kv_head * p.head_dim + d);
      }
      auto* const to = &block.shared.keys[key][d / 4].x[d % 4];
      store(reinterpret_cast<Packed<float, kPack>*>(to), x);
    }
  }

  // Makes the probabilities of the warp's rows for kStepKeys keys, of which lane l has first + l.
  template <int kRows>
  static CAPTION_DEVICE void score_keys(const Block& block, int first, States& states) {
    float scores[kRows] = {};
    multiply_keys(block, scores);
    weigh_scores(block, first, scores, states);
  }

  // Row i of the warp, or its first where it has fewer.
  static CAPTION_DEVICE int row_of_tile(const Block& block, int i) {
    return warp_index() + (i < block.warp_rows ? i : 0) * kRowsWarps;
  }

  template <int kRows>
  static CAPTION_DEVICE void multiply_keys(const Block& block, float (&scores)[kRows]) {
    for (int c = 0; c < count_packs(block.p.head_dim); ++c) {
      const Pack4 key = load(&block.shared.keys[lane_index()][c]);
      for (int i = 0; i < kRows; ++i) {
        const Pack4 q = load(&block.shared.q[row_of_tile(block, i)][c]);
        for (int d = 0; d < 4; ++d) scores[i] = fused(q.x[d], key.x[d], scores[i]);
      }
    }
  }

  // Makes probabilities of the scores, and corrects the states for the new maxima.
  template <int kRows>
  static CAPTION_DEVICE void weigh_scores(const Block& block, int first,
                                          const float (&scores)[kRows], States& states) {
    const int position = first + lane_index();
    const bool has_key = block.keys.contains(position);
    const int at = place_of(position);
    const float factor = has_key ? load(block.shared.factors + at) : 0.0F;
    const float v_scale = has_key ? load(block.shared.v_scales + at) : 0.0F;
    for (int i = 0; i < kRows; ++i) {
      if (i >= block.warp_rows) break;
      const int row = row_of_tile(block, i);
      const bool is_seen = block.tile.keys_of(block.p, row).contains(position);
      const float score = is_seen ? scores[i] * factor : kNoScore;
      RowState& state = states.row[i];
      const float largest = max_of_warp(score);
      const float max = largest > state.max ? largest : state.max;
      const float correction = exponential(state.max - max);
      const float probability = is_seen ? exponential(score - max) : 0.0F;
      state = {max, fused(state.sum, correction, sum_of_warp(probability))};
      for (int g = 0; g < kGroups; ++g) states.output[i][g] *= correction;
      store(&block.shared.probabilities[row][lane_index() / 4].x[lane_index() % 4],
            probability * v_scale);
    }
  }

  template <int kRows>
  static CAPTION_DEVICE void add_values(const Block& block, States& states) {
    CAPTION_NO_UNROLL
    for (int j = 0; j < kStepKeys; j += 4) {
      Pack4 probabilities[kRows];
      for (int i = 0; i < kRows; ++i) {
        probabilities[i] = load(&block.shared.probabilities[row_of_tile(block, i)][j / 4]);
      }
      for (int k = 0; k < 4; ++k) {
        for (int g = 0; g < kGroups; ++g) {
          const int d = dimension(block.p, g);
          const float value = load(&block.shared.keys[j + k][d / 4].x[d % 4]);
          for (int i = 0; i < kRows; ++i) {
            states.output[i][g] = fused(probabilities[i].x[k], value, states.output[i][g]);
          }
        }
      }
    }
  }

  // The lane's dimension of group g; the last of the head where it has none there.
  static CAPTION_DEVICE int dimension(const Params& p, int g) {
    const int d = g * 32 + lane_index();
    return d < p.head_dim ? d : p.head_dim - 1;
  }

  static CAPTION_DEVICE void store_states(const Block& block, int split, const States& states) {
    const Params& p = block.p;
    for (int i = 0; i < kWarpRows; ++i) {
      if (i >= block.warp_rows) break;
      const VectorPlace vector = block.tile.vector(p, block.kv_head, row_of_tile(block, i));
      float* const to = p.state(vector, split - block.tile.sequence.first_split(p));
      for (int g = 0; g < kGroups; ++g) {
        const int d = g * 32 + lane_index();
        // fold_rows() loads four dimensions at a time.
        if (d < p.state_sums()) store(to + d, d < p.head_dim ? states.output[i][g] : 0.0F);
      }
      if (lane_index() == 0) {
        store(to + p.state_sums(), states.row[i].max);
        store(to + p.state_sums() + 1, states.row[i].sum);
      }
    }
  }

  static CAPTION_DEVICE void store_outputs(const Block& block, const States& states) {
    const Params& p = block.p;
    for (int i = 0; i < kWarpRows; ++i) {
      if (i >= block.warp_rows) break;
      const std::int64_t to =
          p.output_offset(block.tile.vector(p, block.kv_head, row_of_tile(block, i)));
      for (int g = 0; g < kGroups; ++g) {
        const int d = g * 32 + lane_index();
        if (d >= p.head_dim) break;
        store_numbers<1>(p.y, to + d, {finished(states.output[i][g], states.row[i].sum)});
      }
    }
  }
};

bool has_packs(const AttendParams& p, std::int64_t count) {
  const auto bytes = static_cast<std::uintptr_t>(count) * dtype_size_bytes(p.kv_dtype);
  const auto is_aligned = [bytes](const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
  };
  return is_aligned(p.k) && is_aligned(p.v) && p.head_dim % count == 0 && p.kv_stride % count == 0;
}

template <int kGroups>
void launch_rows(Stream& stream, const AttendParams& params) {
  const Grid grid = grid_of_tiles(params, kTileRows);
  if (has_packs(params, 4)) {
    launch<AttendRows<kGroups, 4>>(stream, grid, params);
  } else {
    launch<AttendRows<kGroups, 1>>(stream, grid, params);
  }
}

}  // namespace

void attend_f32(Stream& stream, const AttendParams& params) {
  static_assert(internal::kMaxHeadDim <= 256);
  if (params.head_dim <= 64) return launch_rows<2>(stream, params);
  if (params.head_dim <= 128) return launch_rows<4>(stream, params);
  launch_rows<8>(stream, params);
}

}  // namespace caption::kernels::cuda
