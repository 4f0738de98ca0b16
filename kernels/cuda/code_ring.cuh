// kernels/cuda/code_ring.cuh: how the warps of a block read tiles of codes. A warp's tiles come
// through a ring of asynchronous copies, and with a tile the numbers of the groups that begin in
// it. Where copies are loads, a warp has its next tiles in registers until it has multiplied by
// those that are in shared memory.
//
// K is cut into slices of at most 512 packed columns, or one group, which begin with a group and a
// tile; warps take slices in turn. A block may compute two parts (gate and up) one after another:
// the ring goes on from one to the next.
#pragma once

#include "kernels/cuda/codes.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/parts.cuh"

namespace caption::kernels::cuda {

inline constexpr int kCodeWarps = 4;

// What a launch reads of a weight.
struct CodeOperand {
  const Bytes16* tiles;
  const std::byte* numbers;
  const float* rows;
  // kTable4: rounded. kInt4: first the power of two of pair_of_nibbles().
  std::uint16_t codebook[16];
};

struct CodeParams {
  Parts<CodeOperand> parts;
  const std::byte* x;
  const float* group_sums;
  const float* x_scales;
  bool is_swiglu;  // a block computes the parts 0 and 1
  bool has_offsets;
  int rows;
  int packed_columns;
  int tiles;  // along K
  int tiles_per_slice;
  int groups;
  int group_steps;  // products of a tensor core per group
  int inverse_of_group_steps;
  int group_pieces;  // pieces of 16 bytes that hold a group's numbers for 16 features
};

// Which parts a block computes, and its tile along N.
struct CodeWork {
  int first_part;
  int num_passes;  // parts that it computes
  int tile_row;
};
CAPTION_DEVICE CodeWork work_of_block(const CodeParams& p) {
  const int part = p.parts.part_of(block_x());
  return {.first_part = part,
          .num_passes = p.is_swiglu ? 2 : 1,
          .tile_row = block_x() - p.parts.part[part].first_block};
}

// kSteps is the number of steps of a tile. With kInRegisters, kStages tiles are loaded at a time.
template <int kStages, int kSteps, bool kInRegisters = false>
class CodeRing {
 public:
  static constexpr int kPieces = 16;  // at most two groups begin in a tile
  struct Shared {
    Bytes16 tiles[kCodeWarps][kStages][32];
    Bytes16 numbers[kCodeWarps][kStages][kPieces];
  };

  CAPTION_DEVICE CodeRing(const CodeParams& p, const CodeWork& work, Shared& shared)
      : p_(p), work_(work), shared_(shared), slice_(warp_index()) {
    begin_slice();
    if constexpr (kInRegisters) {
      load_stages();
    } else {
      for (int slot = 0; slot < kStages - 1; ++slot) copy_next(slot);
    }
  }

  // Waits for the warp's next tile and begins the copy of a later one. Returns the lane's codes.
  CAPTION_DEVICE Bytes16 next() {
    slot_ = slot_ + 1 == kStages ? 0 : slot_ + 1;
    if constexpr (kInRegisters) {
      if (slot_ == 0) store_stages();
    } else {
      wait_copies<kStages - 2>();
      sync_warp();  // numbers were copied by other lanes, and are no longer read in the slot before
      copy_next(slot_ == 0 ? kStages - 1 : slot_ - 1);
    }
    return load(&shared_.tiles[warp_index()][slot_][lane_index()]);
  }
  // Numbers of the tile that next() returned last.
  template <class T>
  CAPTION_DEVICE T number(int i) const {
    return load(reinterpret_cast<const T*>(shared_.numbers[warp_index()][slot_]) + i);
  }

 private:
  CAPTION_DEVICE void begin_slice() {
    while (pass_ < work_.num_passes && slice_ * p_.tiles_per_slice >= p_.tiles) {
      ++pass_;
      slice_ = warp_index();
    }
    tile_ = slice_ * p_.tiles_per_slice;
    end_ = tile_ + p_.tiles_per_slice < p_.tiles ? tile_ + p_.tiles_per_slice : p_.tiles;
  }

  // Groups that begin before a step.
  CAPTION_DEVICE int groups_before(int step) const {
    const int groups = (step + p_.group_steps - 1) * p_.inverse_of_group_steps >> 16;
    return groups < p_.groups ? groups : p_.groups;
  }

  CAPTION_DEVICE bool has_tile() const { return pass_ < work_.num_passes; }
  CAPTION_DEVICE const CodeOperand& part() const {
    return p_.parts.part[work_.first_part + pass_].weight;
  }
  // The lane's codes of the next tile.
  CAPTION_DEVICE const Bytes16* codes() const {
    const std::int64_t tile = std::int64_t{work_.tile_row} * p_.tiles + tile_;
    return part().tiles + tile * 32 + lane_index();
  }
  // The lane's piece of the numbers of groups that begin in the next tile; null if it has none.
  CAPTION_DEVICE const Bytes16* numbers() const {
    if (p_.group_pieces == 0) return nullptr;
    const int first = groups_before(tile_ * kSteps);
    const int count = groups_before((tile_ + 1) * kSteps) - first;
    if (lane_index() >= count * p_.group_pieces) return nullptr;
    const std::int64_t group = std::int64_t{work_.tile_row} * p_.groups + first;
    return reinterpret_cast<const Bytes16*>(part().numbers) + group * p_.group_pieces +
           lane_index();
  }
  CAPTION_DEVICE void go_on() {
    if (++tile_ < end_) return;
    slice_ += kCodeWarps;
    begin_slice();
  }

  // An empty group of copies when there is no tile left.
  CAPTION_DEVICE void copy_next(int slot) {
    if (has_tile()) {
      copy_16_async(&shared_.tiles[warp_index()][slot][lane_index()], codes(), true);
      const Bytes16* const from = numbers();
      if (from != nullptr) {
        copy_16_async(&shared_.numbers[warp_index()][slot][lane_index()], from, true);
      }
      go_on();
    }
    commit_copies();
  }

  // Loads the next tiles, as many as there are.
  CAPTION_DEVICE void load_stages() {
    CAPTION_UNROLL
    for (int i = 0; i < kStages; ++i) {
      ahead_[i] = ahead_numbers_[i] = Bytes16{};
      if (!has_tile()) continue;
      ahead_[i] = load_once(codes());
      const Bytes16* const from = numbers();
      if (from != nullptr) ahead_numbers_[i] = load_once(from);
      go_on();
    }
  }
  // Brings the tiles that were loaded to shared memory, and loads the next.
  CAPTION_DEVICE void store_stages() {
    sync_warp();  // the tiles before are no longer read
    CAPTION_UNROLL
    for (int i = 0; i < kStages; ++i) {
      store(&shared_.tiles[warp_index()][i][lane_index()], ahead_[i]);
      if (lane_index() < kPieces) {
        store(&shared_.numbers[warp_index()][i][lane_index()], ahead_numbers_[i]);
      }
    }
    sync_warp();
    load_stages();
  }

  const CodeParams& p_;
  CodeWork work_;
  Shared& shared_;
  int slot_ = -1;  // where the tile lies that next() returned
  // The tile that is copied next.
  int pass_ = 0;
  int slice_;
  int tile_ = 0;
  int end_ = 0;  // where its slice ends
  Bytes16 ahead_[kInRegisters ? kStages : 1];
  Bytes16 ahead_numbers_[kInRegisters ? kStages : 1];
};

// Stores totals[pass][group of 8 rows][e][lane] of a block's 16 features times the scales of rows
// and features; a warp stores the element e = warp_index() of each lane's fragments.
template <class T, int kRowGroups>
CAPTION_DEVICE void store_scaled(const CodeParams& p, const CodeWork& work,
                                 const T (&totals)[2][kRowGroups][4][32]) {
  const int e = warp_index();
  const int feature = work.tile_row * 16 + lane_index() / 4 + e / 2 * 8;
  const auto& part = p.parts.part[work.first_part];
  if (feature >= part.output.features) return;
  for (int g = 0; g < kRowGroups; ++g) {
    const int row = (block_y() * kRowGroups + g) * 8 + lane_index() % 4 * 2 + e % 2;
    if (row >= p.rows) return;
    const float x_scale = load(p.x_scales + row);
    const auto scaled = [&](const CodeOperand& of, int pass) {
      const auto total = static_cast<float>(totals[pass][g][e][lane_index()]);
      return total * (x_scale * load(of.rows + feature));
    };
    if (p.is_swiglu) {
      const float up = scaled(p.parts.part[1].weight, 1);
      store_swiglu(part.output, p.parts.part[1].output, row, feature, scaled(part.weight, 0), up);
    } else {
      store_sum(part.output, row, feature, scaled(part.weight, 0));
    }
  }
}

// Host: the grid of a launch whose blocks compute `block_rows` rows.
inline Grid code_grid(const CodeParams& params, int block_rows) {
  return {.x = static_cast<unsigned>(params.parts.blocks),
          .y = static_cast<unsigned>((params.rows + block_rows - 1) / block_rows)};
}
// By forms of kInt8, kInt4 and kTable4, with the bits of MultiplyCodes; any number of rows. `dtype`
// is that of PackedCodes, `blocks` is not kFewRows.
void multiply_code_tiles(Stream& stream, const CodeParams& params, CodeKind kind, DType dtype,
                         CodeBlocks blocks);
// Multiplies by forms of kInt8A8 and kInt4A8. `dtype` is that of PackedCodes: f16 before sm_80.
void multiply_integers(Stream& stream, const CodeParams& params, CodeKind kind, DType dtype);
// The same with the same bits, for any number of rows. `blocks` is not kFewRows.
void multiply_integer_tiles(Stream& stream, const CodeParams& params, CodeKind kind, DType dtype,
                            CodeBlocks blocks);
// Multiplies by forms of kE4M3, whatever blocks compute with the same bits.
void multiply_e4m3_few_rows(Stream& stream, const CodeParams& params);
void multiply_e4m3_tiles(Stream& stream, const CodeParams& params, CodeBlocks blocks);

}  // namespace caption::kernels::cuda
