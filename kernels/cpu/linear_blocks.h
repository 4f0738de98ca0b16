// kernels/cpu/linear_blocks.h: what all weight layouts of the dense layer share: activations in the
// form that the layout multiplies, and the product of a block of rows with a block of features.
//
// Layout    x is processed in blocks of rows. As many blocks as fit a second-level cache are
//           multiplied by the same features in turn, so that a weight is read from memory once for
//           all of them.
// Parallel  an item is one block of rows and one block of features; one thread computes it.
// Numerics  an element is one sum over all of K in the order that kernels/cpu/tier.h documents,
//           then bias, then residual or activation: blocks and threads do not change a bit of it.
#pragma once

#include <cstdint>

#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/tier.h"
#include "kernels/linear.h"

namespace caption::kernels::cpu {

// Rows of a block, a multiple of every tier's tile height (3, 6, 8, 12, 32). On tile registers,
// which multiply faster than weights come from the second-level cache, a block has more rows, so
// that a weight in the first-level cache is used for all of them.
inline constexpr std::int64_t kBlockRows = 96;
inline constexpr std::int64_t kMostBlockRows = 384;
inline constexpr std::int64_t kBlockFeatures = 2 * kPanelColumns;

struct Block {
  std::int64_t first_row, num_rows;
  std::int64_t first_feature, num_features;

  std::int64_t first_panel() const { return first_feature / kPanelColumns; }
  std::int64_t num_panels() const { return (num_features + kPanelColumns - 1) / kPanelColumns; }
};

// x in the form that one layout's kernels read, made once for all weights that multiply it; kRows
// borrows x, the other forms are in the stream's scratch memory in the tier's order
// (kernels/cpu/row_order.h).
struct Activations {
  std::int64_t row_bytes = 0;
  bool has_tiled_rows = false;

  ConstView rows = {};  // kRows: x itself

  // kPanels, kPanels8, kPanels4, kPanelsE4M3: [M, 2 * pairs or more]
  const std::uint16_t* bf16 = nullptr;
  const float* group_sums = nullptr;  // [M, groups], for weights with offsets

  const std::int8_t* codes = nullptr;    // kPanels8A8, kPanels4A8: [M, 4 * quads or more]
  const IntegerRow* integers = nullptr;  // [M]: scale and sum of the codes
  // [M, groups]: sums of the codes of a group of columns, for kPanels4A8 on tiers that need them
  const std::int16_t* code_sums = nullptr;

  std::int64_t bf16_stride() const { return row_bytes / 2; }
};

// Computes tile[m, n] for the block's rows and features; a row of the tile has kBlockFeatures
// elements.
using MultiplyBlock = void (*)(const Tier& tier, const Activations& x, const PackedWeight& weight,
                               const Block& block, float* tile);

// Defined in kernels/cpu/linear_quantised.cpp. round_to_bf16() is for the layouts of
// `bf16`, multiply_quantised() for those of them with codes, the other two are for kPanels8A8 and
// kPanels4A8. All parts have the same layout.
Activations round_to_bf16(Stream& stream, const Tier& tier, ConstView x,
                          std::span<const LinearPart> parts);
Activations round_to_8_bits(Stream& stream, const Tier& tier, ConstView x,
                            std::span<const LinearPart> parts);
void multiply_quantised(const Tier& tier, const Activations& x, const PackedWeight& weight,
                        const Block& block, float* tile);
void multiply_integers(const Tier& tier, const Activations& x, const PackedWeight& weight,
                       const Block& block, float* tile);

}  // namespace caption::kernels::cpu
