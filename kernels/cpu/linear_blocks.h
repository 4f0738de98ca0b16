// kernels/cpu/linear_blocks.h: what all layouts of the dense layer share: activations as the layout
// reads them, and the product of a block of their rows with a block of a weight's features.
//
// Layout    x is read in blocks of at most kBlockRows rows, as many of them in turn under the same
//           features as a second-level cache holds; a weight is read from memory once per so many.
// Parallel  an item is one block of rows and one of features, taken by one thread whole.
// Numerics  an element is one sum over the whole K in an order of its own (kernels/cpu/tier.h),
//           then bias, then the residual or the activation: the blocks and the threads cannot
//           change a bit of it.
#pragma once

#include <cstdint>

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

// x as one layout's kernels read it, made once for all the weights that meet it; in the stream's
// scratch memory.
struct Activations {
  std::int64_t row_bytes = 0;

  ConstView rows = {};  // kRows: as they are

  const std::uint16_t* bf16 = nullptr;  // kPanels, kPanels8, kPanels4: [M, 2 * pairs]
  const float* group_sums = nullptr;    // [M, groups], for offsets

  const std::int8_t* codes = nullptr;    // kPanels8A8: [M, 4 * quads]
  const IntegerRow* integers = nullptr;  // [M]: what the codes stand for
};

// tile[m, n] for the block's rows and features, kBlockFeatures to a row.
using MultiplyBlock = void (*)(const Tier& tier, const Activations& x, const PackedWeight& weight,
                               const Block& block, float* tile);

// kernels/cpu/linear_quantised.cpp: layouts kPanels8 and kPanels4; and kPanels8A8. The parts have
// the layout in common.
Activations round_to_bf16(Stream& stream, const Tier& tier, ConstView x,
                          std::span<const LinearPart> parts);
Activations round_to_8_bits(Stream& stream, const Tier& tier, ConstView x,
                            std::span<const LinearPart> parts);
void multiply_quantised(const Tier& tier, const Activations& x, const PackedWeight& weight,
                        const Block& block, float* tile);
void multiply_8a8(const Tier& tier, const Activations& x, const PackedWeight& weight,
                  const Block& block, float* tile);

}  // namespace caption::kernels::cpu
