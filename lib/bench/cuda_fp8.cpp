#include "bench/internal/cuda_fp8.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "bench/internal/kernel_record.h"

namespace caption::bench {
namespace {

constexpr double kTileFeatures = 16;
constexpr double kTileBytes = 512;  // codes of a tile
constexpr double kStepColumns = 64;
constexpr double kStepTiles = 2;
constexpr double kGroupRows = 8;
constexpr double kWavefrontBytes = 128;
constexpr double kTileWavefronts = kTileBytes / kWavefrontBytes;
constexpr double kRowsWavefronts = 2;      // of 32 columns of 8 rows
constexpr double kStepsPerSlice = 16;      // of more than 4,096 columns
constexpr double kProductFlops = 8192;     // of an m16n8k32
constexpr std::int64_t kMostFewRows = 32;  // kernels/cuda/multiply_codes.cu

// A shape of blocks of Fp8Tiles: kernels/cuda/fp8_tiles.cu.
struct BlockShape {
  const char* name;
  double feature_warps;
  double row_warps;
  double tiles;   // of a warp
  double groups;  // of 8 rows, of a warp

  double features() const { return kTileFeatures * tiles * feature_warps; }
  double rows() const { return kGroupRows * groups * row_warps; }
  double warps() const { return feature_warps * row_warps; }
};
constexpr BlockShape kLarge = {"GemmShape<4, 4, 2, 4, 5>", 2, 4, 4, 4};
constexpr BlockShape kSmall = {"GemmShape<2, 4, 2, 2, 5>", 2, 2, 2, 4};
constexpr double kEnoughBlocks = 96;  // of the larger shape

double as_double(std::int64_t n) { return static_cast<double>(n); }
double blocks_of(double size, double unit) { return std::ceil(size / unit); }

class Launches {
 public:
  Launches(const CudaCard& card, std::int64_t rows, const DenseShape& layer)
      : card_(card),
        products_(card.architecture >= 90 ? 2 : 1),
        rows_(as_double(rows)),
        in_(as_double(layer.matrix.in)),
        out_(as_double(layer.matrix.out)),
        operands_(layer.operands),
        has_norm_(layer.has_norm) {}

  // A block computes 16 features of each operand; its four warps share K.
  CudaWork few_rows() const {
    constexpr double kWarps = 4;
    CudaWork work = operands_of_layer();
    const double row_groups = rows_ <= 8 ? 1 : rows_ <= 16 ? 2 : 4;
    const double blocks = blocks_of(out_, kTileFeatures) / operands_;
    work.l2_bytes += weight_bytes() + rows_ * in_ * blocks * operands_;
    work.products = tiles() * row_groups * products_;
    const auto recorded = find_recorded(
        "Fp8FewRows<" + std::to_string(static_cast<int>(row_groups)) + ">", card_.architecture);
    if (!recorded) return work;
    work.kernel = recorded->name;
    // A tile into the ring and out of it, and x.
    work.wavefronts = tiles() * (2 * kTileWavefronts + row_groups * kRowsWavefronts);
    // Of a tile, in the code of nvcc 13.0, all ways through the loop counted.
    const double of_tile = products_ == 1 ? 38 + 12.5 * row_groups : 56 + 20 * row_groups;
    work.instructions = tiles() * of_tile;
    const double resident = std::min<double>(recorded->blocks, blocks_of(blocks, card_.num_sms));
    work.bytes_in_flight = 6 * kStepTiles * kTileBytes * kWarps * resident;
    return work;
  }

  CudaWork many_rows() const {
    const bool is_large = 3 * rows_ > 2 * kLarge.rows() && count_blocks(kLarge) >= kEnoughBlocks;
    const BlockShape& shape = is_large ? kLarge : kSmall;
    const double blocks = count_blocks(shape);
    CudaWork work = operands_of_layer();
    work.l2_bytes += weight_bytes() * blocks_of(rows_, shape.rows()) + blocks * shape.rows() * in_;
    // Stages of all warps; those without rows multiply nothing.
    const double stages = blocks_of(out_, shape.features()) * shape.feature_warps *
                          blocks_of(rows_, kGroupRows * shape.groups) *
                          blocks_of(in_, kStepColumns);
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
    const double resident = std::min<double>(recorded->blocks, blocks_of(blocks, card_.num_sms));
    work.bytes_in_flight = recorded->bytes_ahead * recorded->threads / 32 * resident;
    return work;
  }

 private:
  double tiles() const {
    return blocks_of(out_, kTileFeatures) * blocks_of(in_, kStepColumns) * kStepTiles;
  }
  double count_blocks(const BlockShape& shape) const {
    return blocks_of(out_, shape.features()) * blocks_of(rows_, shape.rows());
  }
  double weight_bytes() const {
    const double scales = 4 * blocks_of(out_, kTileFeatures) * kTileFeatures;
    return tiles() * kTileBytes + scales;
  }

  // The weight's bytes, and what reads and writes rows: the norm in f32, the rounding of x, which
  // reads it twice, and the sums.
  CudaWork operands_of_layer() const {
    CudaWork work{.launches = has_norm_ ? 3 : 2};
    work.product_flops = kProductFlops / products_;
    work.l2_bytes = rows_ * (in_ * (has_norm_ ? 17 : 9) + 4 * out_);
    work.dram_bytes = weight_bytes() + (work.l2_bytes > card_.l2_bytes / 2 ? work.l2_bytes : 0);
    return work;
  }

  // Of a warp's stage: x and codes into registers, and its share of the block's copies.
  double stage_wavefronts(const BlockShape& shape) const {
    const double of_warp =
        kStepTiles * (shape.groups * kRowsWavefronts + shape.tiles * kTileWavefronts);
    const double copied =
        shape.rows() * kStepColumns + shape.features() / kTileFeatures * kStepTiles * kTileBytes;
    return of_warp + copied / kWavefrontBytes / shape.warps();
  }

  const CudaCard& card_;
  double products_;  // of tensor cores for 32 columns of a tile
  double rows_;
  double in_;
  double out_;
  double operands_;
  bool has_norm_;
};

}  // namespace

CudaWork launch_fp8(const CudaCard& card, std::int64_t rows, const DenseShape& layer) {
  const Launches launches(card, rows, layer);
  return rows <= kMostFewRows ? launches.few_rows() : launches.many_rows();
}

}  // namespace caption::bench
