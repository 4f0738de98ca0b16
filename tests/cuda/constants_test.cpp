// The constant functions of codes.h and tile_layout.h and the bytes of a matrix of codes are
// compared with what these headers describe, counted step by step. The static assertions about
// gpus.h are in gpus_test.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/cuda/codes.h"
#include "kernels/cuda/tile_layout.h"

using caption::kernels::cuda::CodeKind;
using caption::kernels::cuda::CodeShape;
using caption::kernels::cuda::count_slices;
using caption::kernels::cuda::count_tiles;
using caption::kernels::cuda::e4m3_slice_columns;
using caption::kernels::cuda::has_4_bits;
using caption::kernels::cuda::has_8_bit_inputs;
using caption::kernels::cuda::has_integer_products;
using caption::kernels::cuda::has_whole_rows;
using caption::kernels::cuda::make_code_shape;

namespace {

// A kind of codes as the head of codes.h describes it.
struct DescribedKind {
  std::string name;
  CodeKind kind;
  int code_bits;
  bool rounds_x;  // x is rounded to 8 bits
  bool multiplies_integers;
  bool has_one_group;  // a row is one group
  int group_multiple;  // a group is padded to a multiple of so many columns
  int number_bytes;    // a feature has them in each group, without an offset
};
const DescribedKind kDescribedKinds[] = {
    {"kInt8", CodeKind::kInt8, 8, false, false, false, 16, 4},
    {"kInt4", CodeKind::kInt4, 4, false, false, false, 32, 4},
    {"kTable4", CodeKind::kTable4, 4, false, false, false, 32, 4},
    {"kInt8A8", CodeKind::kInt8A8, 8, true, true, true, 32, 0},
    {"kE4M3", CodeKind::kE4M3, 8, true, false, true, 64, 0},
    {"kInt4A8", CodeKind::kInt4A8, 4, true, true, false, 32, 2},
};

// The least multiple of `unit` that is at least `size`.
std::int64_t padded(std::int64_t size, std::int64_t unit) {
  std::int64_t multiple = 0;
  while (multiple < size) multiple += unit;
  return multiple;
}

void check_bytes(const DescribedKind& described, std::int64_t features, std::int64_t columns,
                 bool has_offsets) {
  const std::int64_t group =
      described.has_one_group ? columns : std::min<std::int64_t>(columns, 40);
  std::int64_t groups = 0;
  std::int64_t packed = 0;
  for (std::int64_t begin = 0; begin < columns; begin += group) {
    ++groups;
    packed += padded(group, described.group_multiple);
  }
  packed = padded(packed, 512 * 8 / 16 / described.code_bits);  // a tile has 512 bytes
  const std::int64_t rows = padded(features, 16);
  const CodeShape shape = make_code_shape(described.kind, features, columns, group, has_offsets);
  CHECK(shape.packed_columns() == packed);
  CHECK(shape.tiles_bytes() == rows * packed * described.code_bits / 8);
  CHECK(shape.numbers_bytes() == rows * groups * (described.number_bytes + (has_offsets ? 4 : 0)));
  CHECK(shape.rows_bytes() == (described.rounds_x ? rows * 4 : 0));
}

}  // namespace

TEST_SUITE_BEGIN("cuda/constants");

TEST_CASE("each kind of codes is what its description says") {
  for (const DescribedKind& described : kDescribedKinds) {
    CAPTURE(described.name);
    CHECK(has_4_bits(described.kind) == (described.code_bits == 4));
    CHECK(has_8_bit_inputs(described.kind) == described.rounds_x);
    CHECK(has_integer_products(described.kind) == described.multiplies_integers);
    CHECK(has_whole_rows(described.kind) == described.has_one_group);
  }
}

TEST_CASE("a matrix of codes has the bytes of its padded columns, groups and features") {
  for (const DescribedKind& described : kDescribedKinds) {
    CAPTURE(described.name);
    for (const std::int64_t features : {5, 16, 50}) {
      CAPTURE(features);
      for (const std::int64_t columns : {24, 100, 400}) {
        CAPTURE(columns);
        check_bytes(described, features, columns, false);
        if (described.number_bytes == 4) check_bytes(described, features, columns, true);
      }
    }
  }
}

TEST_CASE("four slices of e4m3 steps hold the columns, unless a slice has 1,024") {
  for (int columns = 64; columns <= 8192; columns += 64) {
    CAPTURE(columns);
    int slice = 64;
    while (slice < 1024 && 4 * slice < columns) slice += 64;
    CHECK(e4m3_slice_columns(columns) == slice);
  }
}

TEST_CASE("tiles of 16 and slices of 1,024 are as many as hold all features or columns") {
  int tiles = 0;
  int slices = 0;
  for (std::int64_t size = 0; size <= 5000; ++size) {
    if (std::int64_t{tiles} * 16 < size) ++tiles;
    if (std::int64_t{slices} * 1024 < size) ++slices;
    CAPTURE(size);
    CHECK(count_tiles(size) == tiles);
    CHECK(count_slices(size) == slices);
  }
}

TEST_SUITE_END();
