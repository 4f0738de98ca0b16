// The dense layer on the CPU: blocks of rows times blocks of features.
//
// Layout    x is read in blocks of at most kBlockRows rows that stay in the L2 cache while all
//           features pass by; a weight is read from memory once per block of rows.
// Parallel  an item is one block of rows and one of features, taken by one thread whole.
// Numerics  an element is one Tier::dot or panel_gemm sum over the whole K (see
// kernels/cpu/tier.h),
//           then bias, then the residual: the blocks and the threads cannot change a bit of it.
#include "kernels/linear.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/select_tier.h"
#include "tensor/dtype.h"

namespace caption::kernels::impl {
namespace {

// 48 is a multiple of both tiers' row tiles (3 and 6).
constexpr std::int64_t kBlockRows = 48;
constexpr std::int64_t kBlockFeatures = 64;

struct Block {
  std::int64_t first_row, num_rows;
  std::int64_t first_feature, num_features;
};

// y (+)= tile + bias, for one block.
void write_block(const float* tile, ConstView bias, LinearOutput output, const Block& block,
                 View y) {
  float features_bias[kBlockFeatures] = {};
  if (!bias.empty()) {
    dispatch_float(bias.dtype(), [&](auto tag) {
      const auto* const b = bias.as<decltype(tag)>() + block.first_feature;
      for (std::int64_t n = 0; n < block.num_features; ++n) features_bias[n] = to_float(b[n]);
    });
  }
  for (std::int64_t m = 0; m < block.num_rows; ++m) {
    const float* const from = tile + m * kBlockFeatures;
    float* const to = y.as<float>() + (block.first_row + m) * y.row_stride() + block.first_feature;
    if (output == LinearOutput::kWrite) {
      for (std::int64_t n = 0; n < block.num_features; ++n) to[n] = from[n] + features_bias[n];
    } else {
      for (std::int64_t n = 0; n < block.num_features; ++n) to[n] += from[n] + features_bias[n];
    }
  }
}

// work(block, tile) fills the tile [kBlockRows, kBlockFeatures] of each block; then it is written.
template <class Work>
void for_each_block(Stream& stream, std::int64_t num_columns, ConstView bias, LinearOutput output,
                    View y, const Work& work) {
  const std::int64_t num_rows = y.dim(0);
  const std::int64_t num_features = y.dim(1);
  const std::int64_t row_blocks = (num_rows + kBlockRows - 1) / kBlockRows;
  const std::int64_t feature_blocks = (num_features + kBlockFeatures - 1) / kBlockFeatures;
  const std::int64_t operations = std::min(num_rows, kBlockRows) * kBlockFeatures * num_columns;
  cpu::parallel_for(
      stream, row_blocks * feature_blocks, operations, [&](std::int64_t begin, std::int64_t end) {
        alignas(64) float tile[kBlockRows * kBlockFeatures];
        for (std::int64_t item = begin; item < end; ++item) {
          Block block{};
          block.first_row = item / feature_blocks * kBlockRows;
          block.num_rows = std::min(kBlockRows, num_rows - block.first_row);
          block.first_feature = item % feature_blocks * kBlockFeatures;
          block.num_features = std::min(kBlockFeatures, num_features - block.first_feature);
          work(block, tile);
          write_block(tile, bias, output, block, y);
        }
      });
}

void linear_rows(Stream& stream, ConstView x, ConstView weight, ConstView bias, LinearOutput output,
                 View y) {
  const cpu::Gemm dot =
      cpu::dot_of(cpu::select_tier(stream.cpu_tier()), cpu::element_of(weight.dtype()));
  const auto* const weights = static_cast<const std::byte*>(weight.raw());
  const auto feature_bytes =
      weight.row_stride() * static_cast<std::int64_t>(dtype_size_bytes(weight.dtype()));
  const std::int64_t k = x.dim(1);
  for_each_block(stream, k, bias, output, y, [&](const Block& block, float* tile) {
    dot({.a = x.as<float>() + block.first_row * x.row_stride(),
         .a_stride = x.row_stride(),
         .b = weights + block.first_feature * feature_bytes,
         .b_stride = weight.row_stride(),
         .c = tile,
         .c_stride = kBlockFeatures,
         .m = block.num_rows,
         .n = block.num_features,
         .k = k});
  });
}

// x as bf16 [M, 2 * num_pairs] in the stream's scratch memory, with a zero after an odd last
// column.
const std::uint16_t* round_rows(Stream& stream, const cpu::Tier& tier, ConstView x,
                                std::int64_t num_pairs) {
  const std::int64_t k = x.dim(1);
  auto* const rounded = reinterpret_cast<std::uint16_t*>(
      stream.scratch(static_cast<std::size_t>(x.dim(0) * num_pairs) * 2 * sizeof(std::uint16_t)));
  cpu::parallel_for(stream, x.dim(0), k, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t m = begin; m < end; ++m) {
      std::uint16_t* const row = rounded + m * 2 * num_pairs;
      tier.to_bf16(x.as<float>() + m * x.row_stride(), row, k);
      if (k % 2 != 0) row[k] = 0;
    }
  });
  return rounded;
}

void linear_panels(Stream& stream, ConstView x, ConstView panels, ConstView bias,
                   LinearOutput output, View y) {
  static_assert(kBlockFeatures % kPanelFeatures == 0 && kPanelFeatures == cpu::kPanelColumns);
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  const std::int64_t num_pairs = panels.dim(1);
  const std::uint16_t* const rounded = round_rows(stream, tier, x, num_pairs);
  const auto* const weights = static_cast<const std::uint16_t*>(panels.raw());
  for_each_block(stream, x.dim(1), bias, output, y, [&](const Block& block, float* tile) {
    const std::int64_t first_panel = block.first_feature / kPanelFeatures;
    tier.panel_gemm({.a = rounded + block.first_row * 2 * num_pairs,
                     .a_stride = 2 * num_pairs,
                     .panels = weights + first_panel * panels.row_stride(),
                     .num_pairs = num_pairs,
                     .num_panels = (block.num_features + kPanelFeatures - 1) / kPanelFeatures,
                     .c = tile,
                     .c_stride = kBlockFeatures,
                     .m = block.num_rows});
  });
}

}  // namespace

void linear(Cpu, Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias,
            LinearOutput output, View y) {
  if (weight.layout() == PackedWeight::Layout::kPanels) {
    linear_panels(stream, x, weight.panels(), bias, output, y);
  } else {
    linear_rows(stream, x, weight.rows(), bias, output, y);
  }
}

}  // namespace caption::kernels::impl
