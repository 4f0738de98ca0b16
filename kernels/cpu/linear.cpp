// The dense layer on the CPU: weights of 16 and 32 bits, and the choice by layout.
#include "kernels/linear.h"

#include "kernels/cpu/linear_blocks.h"
#include "kernels/cpu/select_tier.h"
#include "tensor/dtype.h"

namespace caption::kernels {
namespace cpu {

void write_block(const Tier& tier, const float* tile, const Epilogue& epilogue,
                 const Block& block) {
  constexpr float kQuickGeluBeta = 1.702f;
  float bias[kBlockFeatures] = {};
  if (!epilogue.bias.empty()) {
    dispatch_float(epilogue.bias.dtype(), [&](auto tag) {
      const auto* const b = epilogue.bias.as<decltype(tag)>() + block.first_feature;
      for (std::int64_t n = 0; n < block.num_features; ++n) bias[n] = to_float(b[n]);
    });
  }
  const View& y = epilogue.y;
  for (std::int64_t m = 0; m < block.num_rows; ++m) {
    const float* const from = tile + m * kBlockFeatures;
    float* const to = y.as<float>() + (block.first_row + m) * y.row_stride() + block.first_feature;
    if (epilogue.output == LinearOutput::kAdd) {
      for (std::int64_t n = 0; n < block.num_features; ++n) to[n] += from[n] + bias[n];
      continue;
    }
    for (std::int64_t n = 0; n < block.num_features; ++n) to[n] = from[n] + bias[n];
    if (epilogue.output == LinearOutput::kGelu) tier.gelu(to, to, block.num_features);
    if (epilogue.output == LinearOutput::kQuickGelu) {
      tier.swish(
          {.x = to, .beta = kQuickGeluBeta, .factor = nullptr, .y = to, .n = block.num_features});
    }
  }
}

void round_rows(Stream& stream, const Tier& tier, ConstView x, std::int64_t num_columns,
                std::uint16_t* to) {
  const std::int64_t k = x.dim(1);
  parallel_for(stream, x.dim(0), k, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t m = begin; m < end; ++m) {
      std::uint16_t* const row = to + m * num_columns;
      tier.to_bf16(x.as<float>() + m * x.row_stride(), row, k);
      std::fill(row + k, row + num_columns, std::uint16_t{0});
    }
  });
}

namespace {

void linear_rows(Stream& stream, const Tier& tier, ConstView x, ConstView weight,
                 const Epilogue& epilogue) {
  const Gemm dot = dot_of(tier, element_of(weight.dtype()));
  const auto* const weights = static_cast<const std::byte*>(weight.raw());
  const auto feature_bytes =
      weight.row_stride() * static_cast<std::int64_t>(dtype_size_bytes(weight.dtype()));
  const std::int64_t k = x.dim(1);
  for_each_block(stream, tier, k, epilogue, [&](const Block& block, float* tile) {
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

void linear_panels(Stream& stream, const Tier& tier, ConstView x, ConstView panels,
                   const Epilogue& epilogue) {
  static_assert(kPanelFeatures == kPanelColumns);
  const std::int64_t num_pairs = panels.dim(1);
  auto* const rounded = reinterpret_cast<std::uint16_t*>(
      stream.scratch(static_cast<std::size_t>(x.dim(0) * num_pairs) * 2 * sizeof(std::uint16_t)));
  round_rows(stream, tier, x, 2 * num_pairs, rounded);
  const auto* const weights = static_cast<const std::uint16_t*>(panels.raw());
  for_each_block(stream, tier, x.dim(1), epilogue, [&](const Block& block, float* tile) {
    tier.panel_gemm({.a = rounded + block.first_row * 2 * num_pairs,
                     .a_stride = 2 * num_pairs,
                     .panels = weights + block.first_panel() * panels.row_stride(),
                     .num_pairs = num_pairs,
                     .num_panels = block.num_panels(),
                     .c = tile,
                     .c_stride = kBlockFeatures,
                     .m = block.num_rows});
  });
}

}  // namespace
}  // namespace cpu

namespace impl {

void linear(Cpu, Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias,
            LinearOutput output, View y) {
  using Layout = PackedWeight::Layout;
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  const cpu::Epilogue epilogue{.bias = bias, .output = output, .y = y};
  switch (weight.layout()) {
    case Layout::kRows: return cpu::linear_rows(stream, tier, x, weight.rows(), epilogue);
    case Layout::kPanels: return cpu::linear_panels(stream, tier, x, weight.panels(), epilogue);
    case Layout::kPanels8:
    case Layout::kPanels4: return cpu::linear_quantised(stream, tier, x, weight, epilogue);
    case Layout::kPanels8A8: return cpu::linear_8a8(stream, tier, x, weight, epilogue);
  }
}

}  // namespace impl
}  // namespace caption::kernels
