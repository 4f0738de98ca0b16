#include "bench/internal/cuda_fp8.h"

#include <optional>
#include <string>

#include "bench/internal/code_launch.h"
#include "bench/internal/kernel_record.h"

namespace caption::bench {
namespace {

constexpr double kStepColumns = 64;
constexpr double kStepTiles = 2;
constexpr double kRowsWavefronts = 2;   // wavefronts that read 32 columns of 8 rows
constexpr double kStepsPerSlice = 16;   // steps of a slice where K is more than 4,096
constexpr double kProductFlops = 8192;  // operations of an m16n8k32

class Launches : public CodeLaunch {
 public:
  Launches(const CudaCard& card, std::int64_t rows, const DenseShape& layer)
      : CodeLaunch(card, rows, layer), products_(card.architecture >= 90 ? 2 : 1) {}

  // A block computes 16 features of each operand; its four warps share K.
  CudaWork few_rows() const {
    CudaWork work = operands_of_layer();
    const double row_groups = few_row_groups();
    const double blocks = few_row_blocks();
    work.l2_bytes += weight_bytes() + rows_ * in_ * blocks * operands_;
    work.products = tiles() * row_groups * products_;
    const auto recorded = find_recorded(
        "Fp8FewRows<" + std::to_string(static_cast<int>(row_groups)) + ">", card_.architecture);
    if (!recorded) return work;
    work.kernel = recorded->name;
    // A tile into the ring and out of it, and x.
    work.wavefronts = tiles() * (2 * kTileWavefronts + row_groups * kRowsWavefronts);
    // Instructions of a tile in the code of nvcc 13.0, all ways through the loop counted.
    const double of_tile = products_ == 1 ? 38 + 12.5 * row_groups : 56 + 20 * row_groups;
    work.instructions = tiles() * of_tile;
    work.bytes_in_flight =
        6 * kStepTiles * kTileBytes * kFewRowWarps * resident_blocks(*recorded, blocks);
    return work;
  }

  CudaWork many_rows() const {
    const BlockShape& shape = takes_large(kLarge) ? kLarge : kSmall;
    const double blocks = count_blocks(shape);
    CudaWork work = operands_of_layer();
    work.l2_bytes += weight_bytes() * blocks_of(rows_, shape.rows()) + blocks * shape.rows() * in_;
    const double stages = count_stages(shape, kStepColumns);
    const double of_stage = shape.tiles * shape.groups * kStepTiles * products_;
    work.products = stages * of_stage;
    const auto recorded = find_recorded(std::string("Fp8Tiles<") + shape.name, card_.architecture);
    if (!recorded) return work;
    work.kernel = recorded->name;
    work.wavefronts = stages * stage_wavefronts(shape);
    // The way that adds a slice is taken once per slice.
    const double working = recorded->working_instructions;
    const double all = recorded->instructions_per_product * of_stage;
    work.instructions = stages * (working + (all - working) / kStepsPerSlice);
    work.bytes_in_flight = bytes_in_flight(*recorded, blocks);
    return work;
  }

 private:
  // The shapes of Fp8Tiles (kernels/cuda/fp8_tiles.cu).
  static constexpr BlockShape kLarge = {"GemmShape<4, 4, 2, 4, 5>", 2, 4, 4, 4};
  static constexpr BlockShape kSmall = {"GemmShape<2, 4, 2, 2, 5>", 2, 2, 2, 4};

  double tiles() const {
    return blocks_of(out_, kTileFeatures) * blocks_of(in_, kStepColumns) * kStepTiles;
  }
  double weight_bytes() const {
    const double scales = 4 * blocks_of(out_, kTileFeatures) * kTileFeatures;
    return tiles() * kTileBytes + scales;
  }

  CudaWork operands_of_layer() const {
    constexpr double kRoundingBytes = 9;  // x is read twice
    CudaWork work = work_of_operands(weight_bytes(), kRoundingBytes);
    work.product_flops = kProductFlops / products_;
    return work;
  }

  // Wavefronts of a warp's stage: x and codes into registers, and its share of the block's copies.
  double stage_wavefronts(const BlockShape& shape) const {
    const double of_warp =
        kStepTiles * (shape.groups * kRowsWavefronts + shape.tiles * kTileWavefronts);
    const double copied =
        shape.rows() * kStepColumns + shape.features() / kTileFeatures * kStepTiles * kTileBytes;
    return of_warp + copied / kWavefrontBytes / shape.warps();
  }

  double products_;  // products of tensor cores for 32 columns of a tile
};

}  // namespace

CudaWork launch_fp8(const CudaCard& card, std::int64_t rows, const DenseShape& layer) {
  const Launches launches(card, rows, layer);
  return rows <= CodeLaunch::kMostFewRows ? launches.few_rows() : launches.many_rows();
}

}  // namespace caption::bench
