#include "bench/internal/cuda_integers.h"

#include <optional>
#include <string>

#include "bench/internal/code_launch.h"
#include "bench/internal/kernel_record.h"

namespace caption::bench {
namespace {

constexpr double kStepColumns = 32;
constexpr double kStepWavefronts = 2;   // wavefronts that read 32 columns of 8 rows
constexpr double kGroupColumns = 128;   // columns of a group of 4-bit codes; a file may have fewer
constexpr double kProductFlops = 8192;  // operations of an m16n8k32

class Launches : public CodeLaunch {
 public:
  Launches(const CudaCard& card, std::int64_t rows, const DenseShape& layer)
      : CodeLaunch(card, rows, layer),
        is_8_bit_(layer.format == MatrixFormat::kInt8Row),
        steps_(is_8_bit_ ? 1 : 2) {}

  // A block computes 16 features of each operand; its four warps share K.
  CudaWork few_rows() const {
    CudaWork work = operands_of_layer();
    const double row_groups = few_row_groups();
    const double blocks = few_row_blocks();
    work.l2_bytes += weight_bytes() + rows_ * in_ * blocks * operands_;
    work.products = tiles() * steps_ * row_groups;
    const bool is_turing = card_.architecture < 80;
    const auto recorded = find("MultiplyIntegers", std::to_string(static_cast<int>(row_groups)) +
                                                       (is_turing ? ", true>" : ", false>"));
    if (!recorded) return work;
    work.kernel = recorded->name;
    // A tile into the ring and out of it, its steps and bases, and x.
    work.wavefronts = tiles() * (2 * kTileWavefronts + (is_8_bit_ ? 0 : 2) +
                                 row_groups * steps_ * kStepWavefronts);
    // Instructions of a tile in the code of nvcc 13.0, whose loop has others within.
    const double of_tile = is_8_bit_ ? 120 + 12 * row_groups : 238 + 20 * row_groups;
    work.instructions = tiles() * of_tile;
    // sm_75 has the next four tiles in registers.
    const double ahead = is_turing ? 4 : 11;
    work.bytes_in_flight = ahead * kTileBytes * kFewRowWarps * resident_blocks(*recorded, blocks);
    return work;
  }

  CudaWork many_rows() const {
    const IntegerShape& shape = takes_large(kLarge) ? kLarge : kSmall;
    const double blocks = count_blocks(shape);
    CudaWork work = operands_of_layer();
    work.l2_bytes += (weight_bytes() + repeated_bytes()) * blocks_of(rows_, shape.rows()) +
                     blocks * shape.rows() * in_;
    const double stages = count_stages(shape, tile_columns());
    work.products = stages * shape.tiles * shape.groups * steps_;
    // sm_75 has the next stage in registers, and four instructions per product.
    const bool is_turing = card_.architecture < 80;
    const int ring = is_turing ? 2 : is_8_bit_ ? shape.stages_of_8_bits : shape.stages_of_4_bits;
    const auto recorded = find("IntegerTiles", shape.name + std::to_string(ring) + ">");
    if (!recorded) return work;
    work.kernel = recorded->name;
    work.wavefronts = stages * stage_wavefronts(shape);
    work.instructions = work.products * recorded->instructions_per_product * (is_turing ? 4 : 1);
    work.bytes_in_flight = bytes_in_flight(*recorded, blocks);
    return work;
  }

 private:
  // A shape of IntegerTiles (kernels/cuda/integer_tiles.cu), and the stages that its ring has.
  struct IntegerShape : BlockShape {
    int stages_of_8_bits;
    int stages_of_4_bits;
  };
  static constexpr IntegerShape kLarge = {{"GemmShape<4, 8, 4, 2, ", 4, 2, 4, 8}, 5, 3};
  static constexpr IntegerShape kSmall = {{"GemmShape<2, 4, 2, 2, ", 2, 2, 2, 4}, 8, 5};

  double tile_columns() const { return steps_ * kStepColumns; }
  double tiles() const { return blocks_of(out_, kTileFeatures) * blocks_of(in_, tile_columns()); }

  // Bytes of the steps and bases that codes of 4 bits have for each group and feature.
  double numbers_bytes(double columns) const {
    constexpr double kBytes = 2 * kTileFeatures;
    return is_8_bit_ ? 0 : blocks_of(out_, kTileFeatures) * blocks_of(in_, columns) * kBytes;
  }
  double weight_bytes() const {
    const double scales = 4 * blocks_of(out_, kTileFeatures) * kTileFeatures;
    return tiles() * kTileBytes + numbers_bytes(kGroupColumns) + scales;
  }
  // IntegerTiles copies a step and a base for each 32 columns.
  double repeated_bytes() const {
    return numbers_bytes(kStepColumns) - numbers_bytes(kGroupColumns);
  }

  CudaWork operands_of_layer() const {
    constexpr double kRoundingBytes = 9;  // x is read twice
    CudaWork work = work_of_operands(weight_bytes(), kRoundingBytes);
    work.product_flops = kProductFlops;
    return work;
  }

  // Wavefronts of a warp's stage: x, codes, steps and bases into registers, and its share of the
  // block's copies.
  double stage_wavefronts(const BlockShape& shape) const {
    const double of_warp = shape.groups * steps_ * kStepWavefronts +
                           shape.tiles * (kTileWavefronts + (is_8_bit_ ? 0 : steps_));
    const double tile_bytes = kTileBytes + (is_8_bit_ ? 0 : steps_ * 2 * kTileFeatures);
    const double copied =
        shape.rows() * tile_columns() + shape.features() / kTileFeatures * tile_bytes;
    return of_warp + copied / kWavefrontBytes / shape.warps();
  }

  std::optional<RecordedKernel> find(const char* kernel, const std::string& rest) const {
    const std::string kind = is_8_bit_ ? "<(CodeKind)3, " : "<(CodeKind)4, ";
    return find_recorded(kernel + kind + rest, card_.architecture);
  }

  bool is_8_bit_;
  double steps_;  // steps of 32 columns in a tile
};

}  // namespace

bool has_integer_products(MatrixFormat format) {
  return format == MatrixFormat::kInt8Row || format == MatrixFormat::kInt4A8;
}

CudaWork launch_integers(const CudaCard& card, std::int64_t rows, const DenseShape& layer) {
  const Launches launches(card, rows, layer);
  return rows <= CodeLaunch::kMostFewRows ? launches.few_rows() : launches.many_rows();
}

}  // namespace caption::bench
