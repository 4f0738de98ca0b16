// The dense layer on the CPU: dispatch by weight layout, the rows and bf16-panel layouts, and
// blocking.
//
// Traffic   N * K numbers of the weight once per block of rows, M * (K + N) f32. One token of an LM
//           head [151936, 1024] in bf16: 312 MB, so >= 10.6 ms at 29.5 GB/s.
// Measured  that LM head: 12.3 ms, 86 % of the bound; [3072 + 3072, 1024] with 512 tokens: 3.19 ms,
//           2.0 TFLOP/s, 31 % of 6.5; LM head with 512 tokens: 1.86 TFLOP/s, 29 %. Two vCPUs with
//           AMX, tier amx, 2026-11-26, `caption-cli bench --kernels --shape qwen3-0.6b`.
#include "kernels/linear.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/cpu/linear_blocks.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/select_tier.h"
#include "tensor/dtype.h"

namespace caption::kernels {
namespace cpu {
namespace {

constexpr std::int64_t kTileElements = kMostBlockRows * kBlockFeatures;

void multiply_rows(const Tier& tier, const Activations& x, const PackedWeight& packed,
                   const Block& block, float* tile) {
  const ConstView weight = packed.rows();
  const auto* const weights = static_cast<const std::byte*>(weight.raw());
  const auto feature_bytes =
      weight.row_stride() * static_cast<std::int64_t>(dtype_size_bytes(weight.dtype()));
  const Gemm dot = dot_of(tier, element_of(weight.dtype()));
  dot({.a = x.rows.as<float>() + block.first_row * x.rows.row_stride(),
       .a_stride = x.rows.row_stride(),
       .b = weights + block.first_feature * feature_bytes,
       .b_stride = weight.row_stride(),
       .c = tile,
       .c_stride = kBlockFeatures,
       .m = block.num_rows,
       .n = block.num_features,
       .k = x.rows.dim(1)});
}

void multiply_panels(const Tier& tier, const Activations& x, const PackedWeight& weight,
                     const Block& block, float* tile) {
  static_assert(kPanelFeatures == kPanelColumns);
  const ConstView panels = weight.panels();
  const std::int64_t num_pairs = panels.dim(1);
  tier.panel_gemm({.a = x.bf16 + block.first_row * x.bf16_stride(),
                   .a_stride = x.bf16_stride(),
                   .has_tiled_rows = x.has_tiled_rows,
                   .panels = static_cast<const std::uint16_t*>(panels.raw()) +
                             block.first_panel() * panels.row_stride(),
                   .num_pairs = num_pairs,
                   .num_panels = block.num_panels(),
                   .c = tile,
                   .c_stride = kBlockFeatures,
                   .m = block.num_rows});
}

MultiplyBlock multiply_block_of(const LinearPart& part) {
  using Layout = PackedWeight::Layout;
  switch (PackedWeight::of(part.weight).layout()) {
    case Layout::kRows: return multiply_rows;
    case Layout::kPanels: return multiply_panels;
    case Layout::kPanels8:
    case Layout::kPanels4:
    case Layout::kPanelsE4M3: return multiply_quantised;
    case Layout::kPanels8A8:
    case Layout::kPanels4A8: return multiply_integers;
  }
  return nullptr;
}

Activations activations_for(Stream& stream, const Tier& tier, ConstView x,
                            std::span<const LinearPart> parts) {
  using Layout = PackedWeight::Layout;
  const Layout layout = PackedWeight::of(parts.front().weight).layout();
  if (layout == Layout::kRows) {
    return {.row_bytes = x.row_stride() * static_cast<std::int64_t>(sizeof(float)), .rows = x};
  }
  return layout == Layout::kPanels8A8 || layout == Layout::kPanels4A8
             ? round_to_8_bits(stream, tier, x, parts)
             : round_to_bf16(stream, tier, x, parts);
}

std::int64_t num_feature_blocks(const LinearPart& part) {
  return (part.weight.num_features() + kBlockFeatures - 1) / kBlockFeatures;
}

// Bytes of activations that are multiplied by the same features in turn: about the size of a
// second-level cache.
constexpr std::int64_t kGroupBytes = 1 << 20;

// The work of a layer.
struct Extent {
  std::int64_t num_rows;
  std::int64_t feature_blocks;
  std::int64_t operations_per_row;  // operations of one row and one block of features
};

// With tile registers as many rows as kGroupBytes hold, in blocks of equal height, but no fewer
// blocks than the threads need.
std::int64_t rows_per_block(const Stream& stream, const Activations& x, const Extent& extent) {
  if (!x.has_tiled_rows || extent.num_rows <= kBlockRows) return kBlockRows;
  const std::int64_t most = std::clamp(kGroupBytes / x.row_bytes, kBlockRows, kMostBlockRows);
  constexpr std::int64_t kItemsPerThread = 4;
  const std::int64_t wanted =
      divide_up(kItemsPerThread * stream.pool().num_threads(), extent.feature_blocks);
  const std::int64_t blocks = std::max(divide_up(extent.num_rows, most), wanted);
  constexpr std::int64_t kStep = 2 * kTileRows;
  const std::int64_t rows = divide_up(divide_up(extent.num_rows, blocks), kStep) * kStep;
  return std::max(rows, kBlockRows);
}

// Calls work(index, block) for every pair of a block of rows and a block of features, `index` being
// that of the features; work() derives the block's feature range from it. Several blocks of rows
// follow one another with the same features, whose weights are then read from memory only once.
template <class Work>
void for_each_block(Stream& stream, const Activations& x, const Extent& extent, const Work& work) {
  const auto [num_rows, feature_blocks, operations_per_row] = extent;
  const std::int64_t block_rows = rows_per_block(stream, x, extent);
  const std::int64_t row_blocks = divide_up(num_rows, block_rows);
  const std::int64_t block_bytes = block_rows * std::max<std::int64_t>(x.row_bytes, 1);
  const std::int64_t group = std::max<std::int64_t>(kGroupBytes / block_bytes, 1);
  const std::int64_t operations = std::min(num_rows, block_rows) * operations_per_row;
  parallel_for(stream, row_blocks * feature_blocks, operations,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t item = begin; item < end; ++item) {
                   const std::int64_t first = item / (group * feature_blocks) * group;
                   const std::int64_t count = std::min(group, row_blocks - first);
                   const std::int64_t at = item % (group * feature_blocks);
                   Block block{};
                   block.first_row = (first + at % count) * block_rows;
                   block.num_rows = std::min(block_rows, num_rows - block.first_row);
                   work(at / count, block);
                 }
               });
}

void set_features(const LinearPart& part, std::int64_t index, Block& block) {
  block.first_feature = index * kBlockFeatures;
  block.num_features = std::min(kBlockFeatures, part.weight.num_features() - block.first_feature);
}

// Writes the elements of `vector` [N] for the block's features as f32.
void load_features(ConstView vector, const Block& block, float* to) {
  dispatch_float(vector.dtype(), [&](auto tag) {
    const auto* const from = vector.as<decltype(tag)>() + block.first_feature;
    for (std::int64_t n = 0; n < block.num_features; ++n) to[n] = to_float(from[n]);
  });
}

// Writes the part's bias for the block's features as f32; zeros if the part has no bias.
void load_bias(const LinearPart& part, const Block& block, float* bias) {
  if (part.bias.empty()) {
    std::fill_n(bias, block.num_features, 0.0F);
  } else {
    load_features(part.bias, block, bias);
  }
}

float* output_row(const View& y, const Block& block, std::int64_t m) {
  return y.as<float>() + (block.first_row + m) * y.row_stride() + block.first_feature;
}

// Activates `count` elements in place.
void activate(const Tier& tier, LinearOutput output, float* y, std::int64_t count) {
  constexpr float kQuickGeluBeta = 1.702F;
  switch (output) {
    case LinearOutput::kWrite:
    case LinearOutput::kAdd: return;
    case LinearOutput::kGelu: return tier.gelu(y, y, count);
    case LinearOutput::kGeluTanh: return tier.gelu_tanh(y, y, count);
    case LinearOutput::kQuickGelu:
      return tier.swish({.x = y, .beta = kQuickGeluBeta, .factor = nullptr, .y = y, .n = count});
    case LinearOutput::kSilu:
      return tier.swish({.x = y, .beta = 1, .factor = nullptr, .y = y, .n = count});
    case LinearOutput::kRelu:
      for (std::int64_t n = 0; n < count; ++n) y[n] = y[n] < 0 ? 0 : y[n];  // NaN stays
      return;
  }
}

// Writes the block of y: tile + bias, then scaled and added to y or activated as `output` says.
void write_block(const Tier& tier, const float* tile, const LinearPart& part, LinearOutput output,
                 const Block& block) {
  float bias[kBlockFeatures];
  float scale[kBlockFeatures];
  load_bias(part, block, bias);
  if (!part.scale.empty()) load_features(part.scale, block, scale);
  const std::int64_t count = block.num_features;
  tier.add_bias({.x = tile,
                 .x_stride = kBlockFeatures,
                 .bias = bias,
                 .scale = part.scale.empty() ? nullptr : scale,
                 .y = output_row(part.y, block, 0),
                 .y_stride = part.y.row_stride(),
                 .m = block.num_rows,
                 .n = count,
                 .add = output == LinearOutput::kAdd});
  if (output == LinearOutput::kWrite || output == LinearOutput::kAdd) return;
  for (std::int64_t m = 0; m < block.num_rows; ++m) {
    activate(tier, output, output_row(part.y, block, m), count);
  }
}

// y = swish(gate + gate's bias) * (up + up's bias); overwrites both tiles.
void write_swiglu(const Tier& tier, float* gate_tile, float* up_tile, const LinearPart& gate,
                  const LinearPart& up, const Block& block) {
  float gate_bias[kBlockFeatures];
  float up_bias[kBlockFeatures];
  load_bias(gate, block, gate_bias);
  load_bias(up, block, up_bias);
  const auto add_bias = [&](float* tile, const float* bias) {
    tier.add_bias({.x = tile,
                   .x_stride = kBlockFeatures,
                   .bias = bias,
                   .y = tile,
                   .y_stride = kBlockFeatures,
                   .m = block.num_rows,
                   .n = block.num_features});
  };
  add_bias(gate_tile, gate_bias);
  add_bias(up_tile, up_bias);
  for (std::int64_t m = 0; m < block.num_rows; ++m) {
    tier.swish({.x = gate_tile + m * kBlockFeatures,
                .beta = 1,
                .factor = up_tile + m * kBlockFeatures,
                .y = output_row(gate.y, block, m),
                .n = block.num_features});
  }
}

}  // namespace
}  // namespace cpu

namespace impl {

void linear(Cpu, Stream& stream, ConstView x, std::span<const LinearPart> parts,
            LinearOutput output) {
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  const cpu::Activations activations = cpu::activations_for(stream, tier, x, parts);
  const cpu::MultiplyBlock multiply = cpu::multiply_block_of(parts.front());
  std::int64_t feature_blocks = 0;
  for (const LinearPart& part : parts) feature_blocks += cpu::num_feature_blocks(part);
  const cpu::Extent extent{.num_rows = x.dim(0),
                           .feature_blocks = feature_blocks,
                           .operations_per_row = cpu::kBlockFeatures * x.dim(1)};
  cpu::for_each_block(stream, activations, extent, [&](std::int64_t index, cpu::Block block) {
    alignas(64) float tile[cpu::kTileElements];
    const LinearPart* part = parts.data();
    for (; index >= cpu::num_feature_blocks(*part); ++part) {
      index -= cpu::num_feature_blocks(*part);
    }
    cpu::set_features(*part, index, block);
    multiply(tier, activations, cpu::PackedWeight::of(part->weight), block, tile);
    cpu::write_block(tier, tile, *part, output, block);
  });
}

void linear_swiglu(Cpu, Stream& stream, ConstView x, const LinearPart& gate, const LinearPart& up) {
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  const LinearPart parts[] = {gate, up};
  const cpu::Activations activations = cpu::activations_for(stream, tier, x, parts);
  const cpu::MultiplyBlock multiply = cpu::multiply_block_of(gate);
  const cpu::Extent extent{.num_rows = x.dim(0),
                           .feature_blocks = cpu::num_feature_blocks(gate),
                           .operations_per_row = 2 * cpu::kBlockFeatures * x.dim(1)};
  cpu::for_each_block(stream, activations, extent, [&](std::int64_t index, cpu::Block block) {
    alignas(64) float gate_tile[cpu::kTileElements];
    alignas(64) float up_tile[cpu::kTileElements];
    cpu::set_features(gate, index, block);
    multiply(tier, activations, cpu::PackedWeight::of(gate.weight), block, gate_tile);
    multiply(tier, activations, cpu::PackedWeight::of(up.weight), block, up_tile);
    cpu::write_swiglu(tier, gate_tile, up_tile, gate, up, block);
  });
}

}  // namespace impl
}  // namespace caption::kernels
