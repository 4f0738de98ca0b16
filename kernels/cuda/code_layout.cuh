// kernels/cuda/code_layout.cuh: where the codes of a tile lie among the 16 bytes of its lanes.
//
// A tensor core multiplies 16 features by 16 columns (32 of 8 bits) in a step, and the sum of a
// step does not depend on the order of its columns if x has the same. So a lane takes columns that
// are adjacent in memory, where x is a plain matrix:
//   lane t of four takes the 8 columns 8 t .. 8 t + 7 of 32; a step of 16 bits takes 4 of each lane
//   where a group ends within 32 columns: the 4 columns 4 t .. 4 t + 3 of each 16
#pragma once

#include "kernels/cuda/codes.h"
#include "kernels/cuda/primitives.cuh"

namespace caption::kernels::cuda {

struct CodePlace {
  int word;  // index among the lane's four
  int bit;   // the code's lowest
};

// The place of a lane's column j (of 8 per 32 columns of the tile) in the feature lane / 4, or with
// half = 1 in lane / 4 + 8.
CAPTION_DEVICE CodePlace place_of_code(CodeKind kind, int half, int j) {
  // A fragment's register r = half + 2 * (j / 2 % 2), its lower or upper 16 bits j % 2; with
  // 8 bits r = half + 2 * (j / 4 % 2), its byte j % 4.
  const int r = half + j / 2 % 2 * 2;
  switch (kind) {
    case CodeKind::kInt4: return {j / 4, 4 * r + j % 2 * 16};
    case CodeKind::kTable4: return {j / 4, 8 * r + j % 2 * 4};
    case CodeKind::kInt8: return {j / 2, 8 * half + j % 2 * 16};
    case CodeKind::kInt8A8:
    case CodeKind::kE4M3: return {half + j / 4 * 2, j % 4 * 8};
    case CodeKind::kInt4A8: break;
  }
  return {j / 4, 4 * half + j % 4 * 8};
}

// Whether a group may end within 32 columns.
CAPTION_DEVICE bool has_narrow_groups(int packed_group) { return packed_group % 32 != 0; }

// The column, of a tile, that is column j of the lanes t = lane % 4.
CAPTION_DEVICE int column_of_lane(bool is_narrow, int t, int j) {
  if (is_narrow) return j / 4 * 16 + t * 4 + j % 4;
  return j / 8 * 32 + t * 8 + j % 8;
}

struct LaneColumn {
  int t;
  int j;
};
CAPTION_DEVICE LaneColumn lane_of_column(bool is_narrow, int column) {
  if (is_narrow) return {column % 16 / 4, column / 16 * 4 + column % 4};
  return {column % 32 / 8, column / 32 * 8 + column % 8};
}

// The column of the matrix that is a packed column, or -1 where it has none.
CAPTION_DEVICE int stored_column(const CodeShape& shape, int packed) {
  const int within = packed % shape.packed_group;
  const int column = packed / shape.packed_group * shape.group_columns + within;
  return within < shape.group_columns && column < shape.num_columns ? column : -1;
}

}  // namespace caption::kernels::cuda
