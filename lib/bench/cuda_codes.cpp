#include "bench/internal/cuda_codes.h"

#include <optional>
#include <string>

#include "bench/internal/code_launch.h"
#include "bench/internal/kernel_record.h"

namespace caption::bench {
namespace {

constexpr double kStepColumns = 16;
constexpr double kChunkColumns = 32;
constexpr double kWarpTiles = 2;  // tiles of features that a warp of CodeTiles has
constexpr double kSliceColumns = 512;

// How the GPU holds a format (kernels/cuda/place_codes.cpp). A file of nf4 or of codes with other
// groups differs.
struct Codes {
  int kind;             // CodeKind of kernels/cuda/codes.h
  double tile_columns;  // columns of a tile, which has 16 features
  double group_columns;
  bool has_offsets;

  bool is_table() const { return kind == 2; }
  double steps() const { return tile_columns / kStepColumns; }
  double groups_per_tile() const { return tile_columns / group_columns; }
};
Codes codes_of(MatrixFormat format) {
  if (format == MatrixFormat::kInt8) return {0, 32, 128, false};
  if (format == MatrixFormat::kNf4) return {2, 64, 64, false};
  return {1, 64, 128, true};
}

class Launches : public CodeLaunch {
 public:
  Launches(const CudaCard& card, std::int64_t rows, const DenseShape& layer)
      : CodeLaunch(card, rows, layer), codes_(codes_of(layer.format)) {}

  // A block computes 16 features of each operand; its four warps share K.
  CudaWork few_rows() const {
    CudaWork work = operands_of_layer();
    const double row_groups = few_row_groups();
    const double blocks = few_row_blocks();
    work.l2_bytes += weight_bytes() + 2 * rows_ * in_ * blocks * operands_;
    work.products = tiles() * codes_.steps() * row_groups;
    const auto recorded =
        find("MultiplyCodes<", std::to_string(static_cast<int>(row_groups)) + ">");
    if (!recorded) return work;
    work.kernel = recorded->name;
    // A tile into the ring and out of it, x, and the table's pairs.
    work.wavefronts =
        tiles() *
        (2 * kTileWavefronts + row_groups * codes_.tile_columns / kChunkColumns * kTileWavefronts +
         (codes_.is_table() ? 4 * codes_.steps() : 0));
    // Instructions of a tile, and of a group's end, in the code of nvcc 13.0, whose loop has others
    // within.
    const double of_tile = codes_.steps() == 2 ? 148 + 14 * row_groups : 175 + 24 * row_groups;
    const double of_group = 20 + (codes_.has_offsets ? 16 : 8) * row_groups;
    work.instructions = tiles() * (of_tile + codes_.groups_per_tile() * of_group);
    // sm_75 has the next four tiles in registers.
    const double ahead = !has_bf16() ? 4 : codes_.is_table() ? 5 : 11;
    work.bytes_in_flight = ahead * kTileBytes * kFewRowWarps * resident_blocks(*recorded, blocks);
    return work;
  }

  CudaWork many_rows() const {
    const BlockShape large = has_bf16() ? BlockShape{"GemmShape<2, 6, 4, 2", 4, 2, kWarpTiles, 6}
                                        : BlockShape{"GemmShape<2, 4, 4, 2", 4, 2, kWarpTiles, 4};
    const BlockShape small{"GemmShape<2, 4, 2, 2", 2, 2, kWarpTiles, 4};
    const BlockShape& shape = takes_large(large) ? large : small;
    const double blocks = count_blocks(shape);
    const double row_blocks = blocks_of(rows_, shape.rows());
    CudaWork work = operands_of_layer();
    work.l2_bytes += weight_bytes() * row_blocks + blocks * 2 * shape.rows() * in_;
    const double stages = count_stages(shape, codes_.tile_columns);
    const double stage_products = kWarpTiles * shape.groups * codes_.steps();
    work.products = stages * stage_products;
    const auto recorded = find("CodeTiles<", shape.name);
    if (!recorded) return work;
    work.kernel = recorded->name;
    work.wavefronts = stages * stage_wavefronts(shape);
    const double longest =
        recorded->instructions_per_product * stage_products * (has_bf16() ? 1 : 2);
    work.instructions = stages * (longest - instructions_not_issued(shape));
    work.bytes_in_flight = bytes_in_flight(*recorded, blocks);
    return work;
  }

 private:
  bool has_bf16() const { return card_.architecture >= 80; }
  double tiles() const {
    return blocks_of(out_, kTileFeatures) * blocks_of(in_, codes_.tile_columns);
  }
  double weight_bytes() const {
    const double numbers = codes_.has_offsets ? 2 : 1;  // f32, of a feature and a group
    return tiles() * kTileBytes + blocks_of(out_, kTileFeatures) *
                                      blocks_of(in_, codes_.group_columns) * kTileFeatures * 4 *
                                      numbers;
  }

  CudaWork operands_of_layer() const {
    constexpr double kRoundingBytes = 6;
    return work_of_operands(weight_bytes(), kRoundingBytes);
  }

  // Wavefronts of a warp's stage: x, codes and pairs into registers, and its share of the block's
  // copies.
  double stage_wavefronts(const BlockShape& shape) const {
    const double x_in = shape.groups * codes_.tile_columns / kChunkColumns * kTileWavefronts;
    const double pairs = codes_.is_table() ? 4 * kWarpTiles * codes_.steps() : 0;
    const double x_copied =
        2 * shape.rows() * codes_.tile_columns / kWavefrontBytes / shape.warps();
    return x_in + kWarpTiles * kTileWavefronts + pairs + x_copied + kTileWavefronts;
  }

  // What the longest way through a stage has and most stages have not. The way passes two ends of
  // groups, with offsets, and one of a slice; a group's end has a fused addition for each sum, with
  // offsets two, and half an instruction that sets its product to zero.
  double instructions_not_issued(const BlockShape& shape) const {
    constexpr double kMostEnds = 2;
    const double sums = 4 * kWarpTiles * shape.groups;
    const double of_group = 1.5 * sums;
    const double of_offsets = sums + shape.groups;
    const double ends = codes_.groups_per_tile();
    return (kMostEnds - ends) * (of_group + of_offsets) +
           (codes_.has_offsets ? 0 : ends * of_offsets) +
           (1 - codes_.tile_columns / kSliceColumns) * 1.5 * sums;
  }

  std::optional<RecordedKernel> find(const char* kernel, const std::string& rest) const {
    const std::string name = std::string(kernel) + (has_bf16() ? "BF16" : "F16") + ", (CodeKind)" +
                             std::to_string(codes_.kind) + ", " + rest;
    return find_recorded(name, card_.architecture);
  }

  Codes codes_;
};

}  // namespace

bool has_codes(MatrixFormat format) {
  return format == MatrixFormat::kInt8 || format == MatrixFormat::kInt4 ||
         format == MatrixFormat::kNf4;
}

CudaWork launch_codes(const CudaCard& card, std::int64_t rows, const DenseShape& layer) {
  const Launches launches(card, rows, layer);
  return rows <= CodeLaunch::kMostFewRows ? launches.few_rows() : launches.many_rows();
}

}  // namespace caption::bench
