// Codes are packed once, when a model is loaded: a thread per lane of a tile gathers its codes.
// Rows are unpacked for an embedding: a thread per column.
//
// Traffic  every code once in and once out; reads of single bytes come from L1.
// Measured on no GPU.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "kernels/cuda/code_layout.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"

namespace caption::kernels::cuda {
namespace {

constexpr int kPackThreads = 128;
constexpr int kMostColumns = 131072;  // sums of products of 8 bits then are below 2^31

unsigned count_blocks(std::int64_t threads) {
  return static_cast<unsigned>((threads + kPackThreads - 1) / kPackThreads);
}

// The group of the stored matrix that holds a group of the packed one.
CAPTION_DEVICE int stored_group(const StoredCodeRows& from, const CodeShape& shape, int group) {
  return group * shape.group_columns / from.group_columns;
}
CAPTION_DEVICE int count_stored_groups(const StoredCodeRows& from, const CodeShape& shape) {
  return (shape.num_columns + from.group_columns - 1) / from.group_columns;
}

struct PackParams {
  StoredCodeRows from;
  CodeShape shape;
  Bytes16* tiles;
  void* numbers;
  float* rows;
  int count;  // threads
};

// A thread per lane of a tile.
template <CodeKind kKind>
struct PackTiles {
  static constexpr int kThreads = kPackThreads;
  using Params = PackParams;
  struct Shared {};

  static constexpr int kLaneColumns = has_4_bits(kKind) ? 16 : 8;

  static CAPTION_DEVICE void run(const Params& p) {
    const int i = block_x() * kPackThreads + thread_index();
    if (i >= p.count) return;
    const int tiles_per_row = p.shape.tiles_per_row;
    const int lane = i % 32;
    const int row = i / 32 / tiles_per_row * 16 + lane / 4;
    const int tile_column = i / 32 % tiles_per_row * p.shape.tile_columns;
    const bool is_narrow = has_narrow_groups(p.shape.packed_group);
    Bytes16 codes = {};
    for (int half = 0; half < 2; ++half) {
      for (int j = 0; j < kLaneColumns; ++j) {
        const int column =
            stored_column(p.shape, tile_column + column_of_lane(is_narrow, lane % 4, j));
        if (row + half * 8 >= p.from.count || column < 0) continue;
        const CodePlace place = place_of_code(kKind, half, j);
        codes.word[place.word] |= stored_code(p.from, row + half * 8, column) << place.bit;
      }
    }
    const std::int64_t first_tile = std::int64_t{p.from.first / 16} * tiles_per_row;
    store(p.tiles + first_tile * 32 + i, codes);
  }

  static CAPTION_DEVICE std::uint32_t stored_code(const StoredCodeRows& from, int row, int column) {
    const std::uint8_t* const codes = from.codes + std::int64_t{row} * from.row_bytes;
    if constexpr (kLaneColumns == 8) return load(codes + column);
    return load(codes + column / 2) >> (column % 2 * 4) & 15u;
  }
};

// A thread per feature and group.
struct PackGroups {
  static constexpr int kThreads = kPackThreads;
  using Params = PackParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int i = block_x() * kPackThreads + thread_index();
    if (i >= p.count) return;
    const int groups = p.shape.num_groups;
    const int row = i % 16;
    const int group = i / 16 % groups;
    const int source = i / 16 / groups * 16 + row;
    const int at =
        source * count_stored_groups(p.from, p.shape) + stored_group(p.from, p.shape, group);
    const bool is_inside = source < p.from.count;
    const std::int64_t place = (std::int64_t{p.from.first / 16} * groups + i / 16) * 8 +
                               row % 8;  // index of a pair of features
    if (p.shape.kind == CodeKind::kInt4A8) {
      auto* const to = static_cast<std::uint8_t*>(p.numbers) + place * 4 + row / 8 * 2;
      store(to, is_inside ? load(p.from.steps + at) : std::uint8_t{0});
      store(to + 1, is_inside ? load(p.from.bases + at) : std::uint8_t{0});
      return;
    }
    auto* const to =
        static_cast<float*>(p.numbers) + place * (p.shape.has_offsets ? 4 : 2) + row / 8;
    store(to, is_inside ? load(p.from.scales + at) : 0.0F);
    if (p.shape.has_offsets) store(to + 2, is_inside ? load(p.from.offsets + at) : 0.0F);
  }
};

// A thread per feature.
struct PackRows {
  static constexpr int kThreads = kPackThreads;
  using Params = PackParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int i = block_x() * kPackThreads + thread_index();
    if (i >= p.count) return;
    store(p.rows + p.from.first + i, i < p.from.count ? load(p.from.scales + i) : 0.0F);
  }
};

struct UnpackParams {
  PackedCodes from;
  const std::int32_t* ids;
  float* y;
  std::int64_t y_stride;
};

// A block per row.
struct UnpackRows {
  static constexpr int kThreads = kPackThreads;
  using Params = UnpackParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const CodeShape& shape = p.from.shape;
    const int row = load(p.ids + block_x());
    float* const y = p.y + block_x() * p.y_stride;
    const int columns = shape.num_groups * shape.packed_group;
    for (int packed = thread_index(); packed < columns; packed += kPackThreads) {
      const int stored = stored_column(shape, packed);
      if (stored < 0) continue;
      const int column =
          p.from.column_order == nullptr ? stored : load(p.from.column_order + stored);
      store(y + column, value(p.from, row, packed));
    }
  }

  static CAPTION_DEVICE std::uint32_t code_at(const PackedCodes& from, int row, int packed) {
    const CodeShape& shape = from.shape;
    const LaneColumn lane =
        lane_of_column(has_narrow_groups(shape.packed_group), packed % shape.tile_columns);
    const CodePlace place = place_of_code(shape.kind, row / 8 % 2, lane.j);
    const std::int64_t tile =
        std::int64_t{row / 16} * shape.tiles_per_row + packed / shape.tile_columns;
    const auto* const words = static_cast<const std::uint32_t*>(from.tiles);
    const int at = (row % 8 * 4 + lane.t) * 4 + place.word;
    return load(words + tile * 128 + at) >> place.bit & (shape.tile_columns == 64 ? 15u : 255u);
  }

  static CAPTION_DEVICE float value(const PackedCodes& from, int row, int packed) {
    const CodeShape& shape = from.shape;
    const std::uint32_t code = code_at(from, row, packed);
    const std::int64_t pair =
        (std::int64_t{row / 16} * shape.num_groups + packed / shape.packed_group) * 8 + row % 8;
    if (shape.kind == CodeKind::kInt8A8 || shape.kind == CodeKind::kE4M3) {
      return load(from.rows + row) * number_of(from, code);
    }
    if (shape.kind == CodeKind::kInt4A8) {
      const auto* const step =
          static_cast<const std::uint8_t*>(from.numbers) + pair * 4 + row / 8 % 2 * 2;
      const int eight_bits = load(step) * static_cast<int>(code) + load(step + 1) - 128;
      return load(from.rows + row) * static_cast<float>(eight_bits);
    }
    const auto* const scale =
        static_cast<const float*>(from.numbers) + pair * (shape.has_offsets ? 4 : 2) + row / 8 % 2;
    const float scaled = load(scale) * number_of(from, code);
    return shape.has_offsets ? scaled + load(scale + 2) : scaled;
  }

  // The number that a code stands for, before scaling.
  static CAPTION_DEVICE float number_of(const PackedCodes& from, std::uint32_t code) {
    if (from.shape.kind == CodeKind::kE4M3) {
      // The bits of a float of the same fraction whose exponent has another bias: 127 - 7 more.
      return float_of_bits((code & 0x80u) << 24 | (code & 0x7Fu) << 20) * 0x1p120F;
    }
    if (from.shape.kind == CodeKind::kInt8 || from.shape.kind == CodeKind::kInt8A8) {
      return static_cast<float>(static_cast<std::int8_t>(code));
    }
    if (from.shape.kind == CodeKind::kInt4) return static_cast<float>(static_cast<int>(code) - 8);
    return from.codebook[code];
  }
};

void launch_tiles(Stream& stream, const PackParams& params) {
  const Grid grid = {.x = count_blocks(params.count)};
  switch (params.shape.kind) {
    case CodeKind::kInt8: return launch<PackTiles<CodeKind::kInt8>>(stream, grid, params);
    case CodeKind::kInt4: return launch<PackTiles<CodeKind::kInt4>>(stream, grid, params);
    case CodeKind::kTable4: return launch<PackTiles<CodeKind::kTable4>>(stream, grid, params);
    case CodeKind::kE4M3:  // as kInt8A8
    case CodeKind::kInt8A8: return launch<PackTiles<CodeKind::kInt8A8>>(stream, grid, params);
    case CodeKind::kInt4A8: return launch<PackTiles<CodeKind::kInt4A8>>(stream, grid, params);
  }
}

}  // namespace

CodeShape make_code_shape(CodeKind kind, std::int64_t num_features, std::int64_t num_columns,
                          std::int64_t group_columns, bool has_offsets) {
  constexpr std::int64_t kMostGroup = 128;
  const bool is_whole = group_columns >= num_columns;
  const bool is_valid = group_columns > 0 && (is_whole || group_columns <= kMostGroup ||
                                              group_columns % kMostGroup == 0);
  CAPTION_CHECK(num_columns > 0 && num_columns <= kMostColumns && is_valid,
                "codes of " + std::to_string(num_columns) + " columns in groups of " +
                    std::to_string(group_columns));
  std::int64_t group = std::min(group_columns, num_columns);
  if (!has_whole_rows(kind)) group = std::min(group, kMostGroup);
  const int unit = kind == CodeKind::kE4M3 ? 64 : kind == CodeKind::kInt8 ? 16 : 32;
  CodeShape shape{.kind = kind,
                  .has_offsets = has_offsets,
                  .num_features = static_cast<int>(num_features),
                  .num_columns = static_cast<int>(num_columns),
                  .group_columns = static_cast<int>(group)};
  const auto count = [](int size, int part) { return (size + part - 1) / part; };
  shape.num_groups = count(shape.num_columns, shape.group_columns);
  shape.packed_group = count(shape.group_columns, unit) * unit;
  shape.tile_columns = has_4_bits(kind) ? 64 : 32;
  shape.tile_rows = count(shape.num_features, 16);
  shape.tiles_per_row = count(shape.num_groups * shape.packed_group, shape.tile_columns);
  if (!has_whole_rows(kind)) shape.group_bytes = has_offsets ? 128 : 64;
  if (kind == CodeKind::kInt4A8) shape.group_bytes = 32;
  return shape;
}

void pack_code_rows(Stream& stream, const StoredCodeRows& from, const PackedCodes& to) {
  const CodeShape& shape = to.shape;
  const int tile_rows = (from.count + 15) / 16;
  PackParams params{.from = from,
                    .shape = shape,
                    .tiles = static_cast<Bytes16*>(const_cast<void*>(to.tiles)),
                    .numbers = const_cast<void*>(to.numbers),
                    .rows = const_cast<float*>(to.rows),
                    .count = tile_rows * shape.tiles_per_row * 32};
  launch_tiles(stream, params);
  if (has_8_bit_inputs(shape.kind)) {
    params.count = tile_rows * 16;
    launch<PackRows>(stream, {.x = count_blocks(params.count)}, params);
  }
  if (has_whole_rows(shape.kind)) return;
  params.count = tile_rows * 16 * shape.num_groups;
  launch<PackGroups>(stream, {.x = count_blocks(params.count)}, params);
}

void unpack_code_rows(Stream& stream, ConstView ids, const PackedCodes& from, View y) {
  CAPTION_CHECK(
      y.dtype() == DType::kF32 && y.shape() == (Shape{ids.dim(0), from.shape.num_columns}),
      "unpack_code_rows: y is not [T, K] f32");
  launch<UnpackRows>(stream, {.x = static_cast<unsigned>(ids.dim(0))},
                     {.from = from,
                      .ids = static_cast<const std::int32_t*>(ids.raw()),
                      .y = static_cast<float*>(y.raw()),
                      .y_stride = y.row_stride()});
}

}  // namespace caption::kernels::cuda
