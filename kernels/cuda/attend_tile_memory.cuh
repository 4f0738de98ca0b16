// kernels/cuda/attend_tile_memory.cuh: the shared memory of a block of attend_tiles.cuh, and what
// brings queries, keys and values to it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/attend.h"
#include "kernels/cuda/fold_splits.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/primitives.cuh"

namespace caption::kernels::cuda {

inline constexpr int kStepKeys = 64;
// Positions whose slots shared memory has: those of a split, or of one part of all splits and of
// the next part.
inline constexpr int kSlots = kLongSplitKeys;
inline constexpr int kPartKeys = kSlots / 2;
inline constexpr int kStepsOfPart = kPartKeys / kStepKeys;
inline constexpr float kLog2E = 0x1.715476p0F;

CAPTION_DEVICE std::uint32_t pair_of(BF16, float low, float high) {
  return bf16_pair_of_floats(low, high);
}
CAPTION_DEVICE std::uint32_t pair_of(F16, float low, float high) {
  return f16_pair_of_floats(low, high);
}

// What the blocks of a launch do: all splits of 64 rows, or one split of 16 rows, with buffers for
// keys and others for values, or with one for both, which leaves room for two blocks in the 64 KB
// of a T4. Before sm_80 no copy is under way while a warp multiplies, so that a second buffer would
// not make a split faster.
enum class TileWork { kAllSplits, kSplit, kSplitOneBuffer };

// Element is the type of keys and values: T, or i8 with T = bf16. Heads have up to 16 * kDimTiles
// dimensions. Of a block that attends one split, the first warp multiplies; all copy and fold.
template <class T, class Element, int kDimTiles, TileWork kWork>
struct TileMemory {
  static constexpr bool kSplits = kWork != TileWork::kAllSplits;
  static constexpr bool kHasOneBuffer = kWork == TileWork::kSplitOneBuffer;
  static constexpr bool kIsForTuring = std::is_same_v<T, F16> && kWork != TileWork::kSplit;
  static constexpr Gpus kGpus = kHasOneBuffer ? kTuring : kIsForTuring ? kAllGpus : kFromAmpere;
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kTileRows = kSplits ? kSplitRows : 16 * kWarps;
  static constexpr int kDim = 16 * kDimTiles;
  static constexpr bool kIsInt8 = sizeof(Element) == 1;
  static constexpr int kPacksOfElements = kDim * static_cast<int>(sizeof(Element)) / 16;
  // An odd number of packs of 16 bytes in a row: eight adjacent rows are in different banks.
  static constexpr int kRowPacks = kDim / 8 + 1;
  // Steps whose keys, and values, have buffers.
  static constexpr int kStepsAhead = kHasOneBuffer ? 0 : kSplits ? 2 : 1;
  static constexpr int kBuffers = kHasOneBuffer ? 1 : 2 * kStepsAhead;
  static constexpr int kScales = kIsInt8 ? kSlots : 1;
  // Where there are not enough registers for the state of a split and that of all before it, the
  // latter is in shared memory meanwhile.
  static constexpr bool kKeepsTotal = kSplits || !kIsInt8 || kDimTiles < 8;
  static constexpr int kTotalNumbers = 4 + 8 * kDimTiles;
  using Total = float[kTotalNumbers][kThreads];
  using Params = AttendParams;
  using Rows = Bytes16[kStepKeys][kRowPacks];
  using Buffer = Bytes16[kStepKeys][kIsInt8 ? kPacksOfElements : kRowPacks];
  struct Steps {
    Buffer buffers[kBuffers];                             // of keys and of values in turn
    Bytes16 widened[kIsInt8 ? kStepKeys : 1][kRowPacks];  // keys or values
  };
  struct Shared {
    union {
      Bytes16 q[kTileRows][kRowPacks];
      FoldMemory<kWarps> fold;
    };
    union {
      Steps steps;
      // After all steps.
      std::conditional_t<kSplits || !kKeepsTotal, char, Total> last_total;
    };
    // For each position, at position % kSlots. Positions that no row of the tile sees have the slot
    // and factor of one that is seen, and a v_scale of 0.
    int slots[kSlots];
    float factors[kScales];  // multiply the scores
    float v_scales[kScales];
    std::conditional_t<kKeepsTotal, char, Total> total;
    std::uint32_t is_last;  // fold_tile(): 1 where this block is the last of the tile
  };
  struct Block {
    const Params& p;
    Tile tile;
    KeyRange keys;
    KeyRange steps;  // counted from position 0
    int kv_head;
    // What a lane copies: of rows of row_bytes, the bytes from k or v, if the head has them.
    const unsigned char* k;
    const unsigned char* v;
    int row_bytes;
    int head_bytes;
    bool copies;
    float factor;  // multiplies scores; with i8, factors[] does
    // The keys that any of the warp's rows sees, those that all of them see, and those that each of
    // the lane's two rows sees.
    KeyRange some = {};
    KeyRange all = {};
    KeyRange row_keys[2] = {};
  };

  static CAPTION_DEVICE Shared& shared() { return shared_memory<Shared>(); }

  static CAPTION_DEVICE Block block_of(const Params& p, const Tile& tile, const KeyRange& splits) {
    const KeyRange keys = tile.keys(p);
    const int first = begin_of_split(splits.begin);
    const int last = begin_of_split(splits.end);
    const int end = last < keys.end ? last : keys.end;
    const KeyRange steps{(keys.begin > first ? keys.begin : first) / kStepKeys,
                         (end + kStepKeys - 1) / kStepKeys};
    Block block{.p = p,
                .tile = tile,
                .keys = keys,
                .steps = steps,
                .kv_head = block_y(),
                .k = static_cast<const unsigned char*>(p.k),
                .v = static_cast<const unsigned char*>(p.v),
                .row_bytes = static_cast<int>(p.kv_stride) * static_cast<int>(sizeof(Element)),
                .head_bytes = p.head_dim * static_cast<int>(sizeof(Element)),
                .copies = true,
                .factor = p.scale * kLog2E};
    int offset = block.kv_head * block.head_bytes;
    if constexpr (kHasColumn) {
      block.copies = column_of(thread_index()) * 16 < block.head_bytes;
      offset += block.copies ? column_of(thread_index()) * 16 : 0;
    }
    block.k += offset;
    block.v += offset;
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
    constexpr int kPacks = kDim / 4;  // a pack has four dimensions
    constexpr int kOfThread = kTileRows * kPacks / kThreads;
    constexpr int kAtOnce = kOfThread > 8 ? kOfThread / 2 : kOfThread;
    static_assert(kOfThread * kThreads == kTileRows * kPacks && kOfThread % kAtOnce == 0);
    CAPTION_NO_UNROLL
    for (int done = 0; done < kOfThread; done += kAtOnce) {
      Packed<float, 4> x[kAtOnce];
      CAPTION_UNROLL
      for (int c = 0; c < kAtOnce; ++c) {
        const int i = thread_index() + (done + c) * kThreads;
        x[c] = load_query(block, i / kPacks, i % kPacks * 4);
      }
      CAPTION_UNROLL
      for (int c = 0; c < kAtOnce; ++c) {
        const int i = thread_index() + (done + c) * kThreads;
        Packed<T, 4> rounded;
        for (int e = 0; e < 4; ++e) narrow(x[c].x[e], rounded.x[e]);
        auto* const row = reinterpret_cast<Packed<T, 4>*>(shared().q[i / kPacks]);
        store(row + i % kPacks, rounded);
      }
    }
  }

  static CAPTION_DEVICE Packed<float, 4> load_query(const Block& block, int row, int d) {
    const Params& p = block.p;
    Packed<float, 4> x{};
    if (row >= block.tile.rows || d >= p.head_dim) return x;
    const float* const from = p.query(block.tile.vector(p, block.kv_head, row)) + d;
    const bool has_packs = reinterpret_cast<std::uintptr_t>(p.q) % 16 == 0 && p.q_stride % 4 == 0;
    if (has_packs) return load(reinterpret_cast<const Packed<float, 4>*>(from));
    for (int e = 0; e < 4; ++e) x.x[e] = load(from + e);
    return x;
  }

  // Finds the slots from a position on: those of the block's split, or those of a part. A thread
  // loads all its slots before it stores the first.
  static CAPTION_DEVICE void find_slots(const Block& block, int first) {
    const Params& p = block.p;
    constexpr int kOfThread = (kSplits ? kSlots : kPartKeys) / kThreads;
    // Keys behind those that the block attends to share the slot of its last one.
    const int steps_end = block.steps.end * kStepKeys;
    const int end = steps_end < block.keys.end ? steps_end : block.keys.end;
    int slots[kOfThread];
    CAPTION_UNROLL
    for (int i = 0; i < kOfThread; ++i) {
      const int position = first + thread_index() + i * kThreads;
      const int last = position < end ? position : end - 1;
      const int seen = last < block.keys.begin ? block.keys.begin : last;
      slots[i] = block.tile.sequence.slot(p, seen);
    }
    CAPTION_UNROLL
    for (int i = 0; i < kOfThread; ++i) {
      const int position = first + thread_index() + i * kThreads;
      const int at = position % kSlots;
      shared().slots[at] = slots[i];
      if constexpr (kIsInt8) {
        const bool is_seen = block.keys.contains(position);
        const std::int64_t vector = std::int64_t{slots[i]} * p.kv_heads + block.kv_head;
        shared().factors[at] = p.scale * widen(load(p.k_scales + vector)) * kLog2E;
        shared().v_scales[at] = is_seen ? widen(load(p.v_scales + vector)) : 0.0F;
      }
    }
  }

  // Pack i of a step, counted along the keys, is a thread's copy i / kThreads. Where the threads
  // are a multiple of a key's packs, all copies of a thread are of one column, which is in the
  // block's addresses.
  static constexpr bool kHasColumn = kThreads % kPacksOfElements == 0;
  static constexpr int kStepPacks = kStepKeys * kPacksOfElements;
  static constexpr int kCopies = (kStepPacks + kThreads - 1) / kThreads;  // that a thread makes
  // Copies that a thread begins at once: where copies are loads, so many are under way.
  static constexpr int kMostAtOnce = kHasColumn ? 8 : 5;
  static constexpr int kCopiesAtOnce = kCopies < kMostAtOnce ? kCopies : kMostAtOnce;
  static CAPTION_DEVICE int column_of(int i) { return i % kPacksOfElements; }

  // Begins the copy of a step's keys or values; zeros where no row of the tile sees a key and
  // beyond the head's dimensions.
  template <int kPacks>
  static CAPTION_DEVICE void copy_step(const Block& block, const unsigned char* from,
                                       Bytes16 (&to)[kStepKeys][kPacks], int step) {
    const int first = step * kStepKeys;
    const int* const slots = &shared().slots[first % kSlots];
    // Keys of the step that the tile sees.
    const int begin = block.keys.begin - first;
    const int end = block.copies ? block.keys.end - first : begin;
    if constexpr (kHasColumn) {
      CAPTION_UNROLL
      for (int done = 0; done < kCopies; done += kCopiesAtOnce) {
        Copy16 copies[kCopiesAtOnce];
        CAPTION_UNROLL
        for (int c = 0; c < kCopiesAtOnce; ++c) {
          const int key =
              thread_index() / kPacksOfElements + (done + c) * (kThreads / kPacksOfElements);
          const std::int64_t row = std::int64_t{load(slots + key)} * block.row_bytes;
          copies[c] = {&to[key][column_of(thread_index())], from + row, begin <= key && key < end};
        }
        copy_16_async(copies);
      }
    } else {
      CAPTION_NO_UNROLL
      for (int done = 0; done < kCopies; done += kCopiesAtOnce) {
        Copy16 copies[kCopiesAtOnce];
        CAPTION_UNROLL
        for (int c = 0; c < kCopiesAtOnce; ++c) {
          const int i = thread_index() + (done + c) * kThreads;
          const bool has_copy = i < kStepPacks;
          const int key = has_copy ? i / kPacksOfElements : 0;
          const int byte = column_of(i) * 16;
          const std::int64_t row = std::int64_t{load(slots + key)} * block.row_bytes;
          const bool is_inside = begin <= key && key < end && byte < block.head_bytes;
          copies[c] = {has_copy ? &to[key][column_of(i)] : nullptr, from + row + byte, is_inside};
        }
        copy_16_async(copies);
      }
    }
    commit_copies();
  }

  // Makes bf16 of i8, which is exact. The block's threads call it between barriers.
  template <int kPacks>
  static CAPTION_DEVICE const Rows& widen_step(const Bytes16 (&from)[kStepKeys][kPacks]) {
    if constexpr (kIsInt8) {
      for (int i = thread_index(); i < kStepKeys * kDim / 8; i += kThreads) {
        const int key = i / (kDim / 8);
        const int pack = i % (kDim / 8);
        const auto codes = load(reinterpret_cast<const Packed<std::int8_t, 8>*>(
            reinterpret_cast<const std::int8_t*>(from[key]) + pack * 8));
        Bytes16 wide;
        for (int w = 0; w < 4; ++w) {
          wide.word[w] = pair_of(T{}, codes.x[2 * w], codes.x[2 * w + 1]);
        }
        store(&shared().steps.widened[key][pack], wide);
      }
      sync_block();
      return shared().steps.widened;
    } else {
      return from;
    }
  }

  static CAPTION_DEVICE Buffer& key_buffer(int step) {
    return shared().steps.buffers[kStepsAhead == 2 ? step % 2 * 2 : 0];
  }
  static CAPTION_DEVICE Buffer& value_buffer(int step) {
    if constexpr (kHasOneBuffer) return shared().steps.buffers[0];
    return shared().steps.buffers[kStepsAhead == 2 ? step % 2 * 2 + 1 : 1];
  }
};

}  // namespace caption::kernels::cuda
