#include "bench/internal/cuda_tiles.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "bench/internal/kernel_record.h"

namespace caption::bench {
namespace {

constexpr double kTile = 16;        // features, and columns, of a product's first operand
constexpr double kProductRows = 8;  // rows of x of a product
constexpr double kWeightBytes = 2;

// A shape of blocks of TileGemm (kernels/cuda/tile_gemm.cu), or WarpgroupGemm's.
struct GemmShape {
  const char* name;
  double features;  // features that a block computes
  double rows;
  double wavefronts_per_product;  // operands out of shared memory, copies into it
  double enough_blocks;           // below it, slices have blocks of their own
};
constexpr GemmShape kSmallGemm = {"GemmShape<2, 4, 2, 2, 6>", 64, 64, 3, 264};
constexpr GemmShape kLargeGemm = {"GemmShape<4, 4, 2, 4, 4>", 128, 128, 2, 128};
// A product m64n192k16, of which there are 96 m16n8k16, reads 6 KB of x, for which tensor cores
// take 48 wavefronts: with 64 rows, which take as many clocks for their reads as for their
// products, they have their full rate (arXiv:2402.13499). The others are those of its weights and
// copies.
constexpr GemmShape kWarpgroupGemm = {"", 128, 192, 48.0 / 96 + 4.0 / 24 + 80.0 / 192, 0};
constexpr double kSliceColumns = 1024;
constexpr double kStagesPerSlice = 32;

double as_double(std::int64_t n) { return static_cast<double>(n); }

double count_blocks(const GemmShape& shape, std::int64_t rows, const DenseShape& layer) {
  return std::ceil(as_double(layer.matrix.out) / shape.features) *
         std::ceil(as_double(rows) / shape.rows);
}

// As kernels/cuda/warpgroup_gemm.cu decides it.
bool takes_warpgroups(const CudaCard& card, std::int64_t rows, const DenseShape& layer) {
  constexpr double kMultiprocessors = 132;
  if (card.clocks_of_warpgroups == 0 || as_double(rows) <= kLargeGemm.rows) return false;
  const double blocks = count_blocks(kWarpgroupGemm, rows, layer);
  return 3 * blocks >= 2 * std::ceil(blocks / kMultiprocessors) * kMultiprocessors;
}

void add_tile_kernel(const CudaCard& card, const GemmShape& shape, int operands, double blocks,
                     bool is_sliced, CudaWork& work) {
  const bool has_bf16 = card.architecture >= 80;
  const std::string name = std::string("TileGemm<") + (has_bf16 ? "BF16, " : "F16, ") + shape.name +
                           ", " + std::to_string(operands);
  const auto sliced = find_recorded(name + ", true", card.architecture);
  const auto whole = find_recorded(name + ", false", card.architecture);
  if (!sliced || !whole) return;
  const RecordedKernel& recorded = is_sliced ? *sliced : *whole;
  work.kernel = recorded.name;
  work.wavefronts = work.products * shape.wavefronts_per_product;
  // The way through the loop that adds a slice is taken once per slice.
  const double of_slice = whole->instructions_per_product - sliced->instructions_per_product;
  work.instructions = work.products * (has_bf16 ? 1 : 2) *
                      (sliced->instructions_per_product + of_slice / kStagesPerSlice);
  const double resident = std::min<double>(recorded.blocks, std::ceil(blocks / card.num_sms));
  work.bytes_in_flight = recorded.bytes_ahead * recorded.threads / 32 * resident;
}

// A multiprocessor has one block at a time.
void add_warpgroup_kernel(const CudaCard& card, int operands, double blocks, CudaWork& work) {
  constexpr double kProductsOfInstruction = 24;  // m16n8k16 of a warp
  const auto recorded =
      find_recorded("WarpgroupGemm<" + std::to_string(operands) + ">", card.architecture);
  if (!recorded) return;
  work.kernel = recorded->name;
  work.blocks = blocks;
  work.wavefronts = work.products * kWarpgroupGemm.wavefronts_per_product;
  // All ways through the loop are counted, though one that adds a slice is taken once per slice.
  work.instructions = work.products / kProductsOfInstruction * recorded->instructions_per_product;
  work.bytes_in_flight = recorded->bytes_ahead * recorded->threads / 32;
}

}  // namespace

CudaWork launch_tiles(const CudaCard& card, std::int64_t rows, const DenseShape& layer) {
  const model::LinearSpec& matrix = layer.matrix;
  const bool has_warpgroups = takes_warpgroups(card, rows, layer);
  const GemmShape& shape = has_warpgroups                       ? kWarpgroupGemm
                           : as_double(rows) <= kSmallGemm.rows ? kSmallGemm
                                                                : kLargeGemm;
  const auto in = as_double(matrix.in);
  const double blocks = count_blocks(shape, rows, layer);
  const double slices = blocks < shape.enough_blocks ? std::ceil(in / kSliceColumns) : 1;
  const double computed = blocks * shape.features * shape.rows;  // sums
  CudaWork work{.launches = (slices > 1 ? 2 : 1) + (layer.takes_rounded ? 0 : 1),
                .has_warpgroups = has_warpgroups};
  work.dram_bytes = kWeightBytes * as_double(matrix.num_weights());
  const double in_bytes = layer.takes_rounded ? kWeightBytes : 4 + 2 * kWeightBytes;
  const double activations = as_double(rows) * in_bytes * in +
                             layer.output_bytes * as_double(rows * matrix.out) +
                             (slices > 1 ? 8 * slices * computed : 0);
  if (activations > card.l2_bytes / 2) work.dram_bytes += activations;
  work.l2_bytes = blocks * kWeightBytes * (shape.features + shape.rows) * in + activations;
  work.products = computed / (kTile * kProductRows) * std::ceil(in / kTile);
  if (has_warpgroups) {
    add_warpgroup_kernel(card, layer.operands, blocks, work);
  } else {
    add_tile_kernel(card, shape, layer.operands, blocks * slices, slices > 1, work);
  }
  return work;
}

}  // namespace caption::bench
