// bench/internal/code_launch.h: what predictions of a dense layer share whose weights are tiles of
// codes, 512 bytes for 16 features (kernels/cuda/multiply_codes.cu, multiply_integers.cu,
// fp8_few_rows.cu, and code_tiles.cu, integer_tiles.cu, fp8_tiles.cu for more rows).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "bench/internal/cuda_codes.h"
#include "bench/internal/kernel_record.h"

namespace caption::bench {

class CodeLaunch {
 public:
  // The kernels for few rows take so many: kernels/cuda/multiply_codes.cu.
  static constexpr std::int64_t kMostFewRows = 32;

 protected:
  static constexpr double kTileFeatures = 16;
  static constexpr double kTileBytes = 512;
  static constexpr double kGroupRows = 8;
  static constexpr double kWavefrontBytes = 128;
  static constexpr double kTileWavefronts = kTileBytes / kWavefrontBytes;
  static constexpr double kFewRowWarps = 4;  // warps of a block, which share K

  // A shape of the blocks for more rows: GemmShape of kernels/cuda/tile_block.cuh.
  struct BlockShape {
    const char* name;  // "GemmShape<2, 4, 2, 2", or more of it
    double feature_warps;
    double row_warps;
    double tiles;   // tiles of features that a warp has
    double groups;  // groups of 8 rows that a warp has

    double features() const { return kTileFeatures * tiles * feature_warps; }
    double rows() const { return kGroupRows * groups * row_warps; }
    double warps() const { return feature_warps * row_warps; }
  };

  CodeLaunch(const CudaCard& card, std::int64_t rows, const DenseShape& layer)
      : card_(card),
        rows_(static_cast<double>(rows)),
        in_(static_cast<double>(layer.matrix.in)),
        out_(static_cast<double>(layer.matrix.out)),
        operands_(layer.operands),
        has_norm_(layer.has_norm) {}

  static double blocks_of(double size, double unit) { return std::ceil(size / unit); }

  // The blocks for few rows, each of 16 features of every operand, and their groups of 8 rows.
  double few_row_blocks() const { return blocks_of(out_, kTileFeatures) / operands_; }
  double few_row_groups() const { return rows_ <= 8 ? 1 : rows_ <= 16 ? 2 : 4; }

  // Whether blocks have the larger of two shapes: kernels/cuda/code_tiles.cuh, launch_tiles().
  bool takes_large(const BlockShape& large) const {
    constexpr double kEnoughBlocks = 96;
    return 3 * rows_ > 2 * large.rows() && count_blocks(large) >= kEnoughBlocks;
  }
  double count_blocks(const BlockShape& shape) const {
    return blocks_of(out_, shape.features()) * blocks_of(rows_, shape.rows());
  }
  // The stages of so many columns of all warps; those without rows multiply nothing.
  double count_stages(const BlockShape& shape, double columns) const {
    return blocks_of(out_, shape.features()) * shape.feature_warps *
           blocks_of(rows_, kGroupRows * shape.groups) * blocks_of(in_, columns);
  }

  // The blocks that a multiprocessor holds at once, of all of a launch.
  double resident_blocks(const RecordedKernel& kernel, double blocks) const {
    return std::min<double>(kernel.blocks, blocks_of(blocks, card_.num_sms));
  }
  // The bytes that these blocks have in flight, by the record.
  double bytes_in_flight(const RecordedKernel& kernel, double blocks) const {
    return kernel.bytes_ahead * kernel.threads / 32 * resident_blocks(kernel, blocks);
  }

  // The weight's bytes, and what reads and writes rows: the norm in f32, the rounding of x, which
  // moves `rounding_bytes` per number, and the sums.
  CudaWork work_of_operands(double weight_bytes, double rounding_bytes) const {
    constexpr double kNormBytes = 8;
    CudaWork work{.launches = has_norm_ ? 3 : 2};
    work.l2_bytes = rows_ * (in_ * (rounding_bytes + (has_norm_ ? kNormBytes : 0)) + 4 * out_);
    work.dram_bytes = weight_bytes + (work.l2_bytes > card_.l2_bytes / 2 ? work.l2_bytes : 0);
    return work;
  }

  const CudaCard& card_;
  double rows_;
  double in_;
  double out_;
  double operands_;
  bool has_norm_;
};

}  // namespace caption::bench
