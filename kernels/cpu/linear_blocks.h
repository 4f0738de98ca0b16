// kernels/cpu/linear_blocks.h: what all layouts of the dense layer share: blocks of rows times
// blocks of features.
//
// Layout    x is read in blocks of at most kBlockRows rows that stay in the L2 cache while all
//           features pass by; a weight is read from memory once per block of rows.
// Parallel  an item is one block of rows and one of features, taken by one thread whole.
// Numerics  an element is one sum over the whole K in an order of its own (kernels/cpu/tier.h),
// then
//           bias, then the residual or the activation: the blocks and the threads cannot change a
//           bit of it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tier.h"
#include "kernels/linear.h"

namespace caption::kernels::cpu {

// A multiple of every tier's row tile (3, 6, 12, 32).
inline constexpr std::int64_t kBlockRows = 96;
inline constexpr std::int64_t kBlockFeatures = 2 * kPanelColumns;

struct Block {
  std::int64_t first_row, num_rows;
  std::int64_t first_feature, num_features;

  std::int64_t first_panel() const { return first_feature / kPanelColumns; }
  std::int64_t num_panels() const { return (num_features + kPanelColumns - 1) / kPanelColumns; }
};

// Where a layer's results go.
struct Epilogue {
  ConstView bias;  // or empty
  LinearOutput output;
  View y;
};

// y = tile + bias, as the output says, for one block; the tile's rows are kBlockFeatures apart.
void write_block(const Tier& tier, const float* tile, const Epilogue& epilogue, const Block& block);

// work(block, tile) fills the tile [kBlockRows, kBlockFeatures] of each block; then it is written.
template <class Work>
void for_each_block(Stream& stream, const Tier& tier, std::int64_t num_columns,
                    const Epilogue& epilogue, const Work& work) {
  const std::int64_t num_rows = epilogue.y.dim(0);
  const std::int64_t num_features = epilogue.y.dim(1);
  const std::int64_t row_blocks = (num_rows + kBlockRows - 1) / kBlockRows;
  const std::int64_t feature_blocks = (num_features + kBlockFeatures - 1) / kBlockFeatures;
  const std::int64_t operations = std::min(num_rows, kBlockRows) * kBlockFeatures * num_columns;
  parallel_for(
      stream, row_blocks * feature_blocks, operations, [&](std::int64_t begin, std::int64_t end) {
        alignas(64) float tile[kBlockRows * kBlockFeatures];
        for (std::int64_t item = begin; item < end; ++item) {
          Block block{};
          block.first_row = item / feature_blocks * kBlockRows;
          block.num_rows = std::min(kBlockRows, num_rows - block.first_row);
          block.first_feature = item % feature_blocks * kBlockFeatures;
          block.num_features = std::min(kBlockFeatures, num_features - block.first_feature);
          work(block, tile);
          write_block(tier, tile, epilogue, block);
        }
      });
}

// x [M, K] as bf16 [M, num_columns] at `to`, zeros from K on.
void round_rows(Stream& stream, const Tier& tier, ConstView x, std::int64_t num_columns,
                std::uint16_t* to);

// kernels/cpu/linear_quantised.cpp: layouts kPanels8 and kPanels4; and kPanels8A8.
void linear_quantised(Stream& stream, const Tier& tier, ConstView x, const PackedWeight& weight,
                      const Epilogue& epilogue);
void linear_8a8(Stream& stream, const Tier& tier, ConstView x, const PackedWeight& weight,
                const Epilogue& epilogue);

}  // namespace caption::kernels::cpu
