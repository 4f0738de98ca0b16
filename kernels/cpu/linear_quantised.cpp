// The dense layer on the CPU: rounding of activations to bf16 and 8 bits, weights of 8 and 4 bits.
//
// Traffic   as in linear.cpp, with one byte per number of w8a8 and int8, half a byte of int4, nf4.
// Measured  w8a8: one token of an LM head [151936, 1024]: 5.66 ms, 94 % of 29.5 GB/s; 512 tokens of
//           [3072 + 3072, 1024]: 1.94 ms, 3.3 TFLOP/s. Two vCPUs with AMX, tier amx, 2026-11-26,
//           `caption-cli bench --kernels --shape qwen3-0.6b`.
#include <algorithm>
#include <numeric>

#include "base/math.h"
#include "kernels/cpu/linear_blocks.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/row_order.h"
#include "kernels/cpu/select_tier.h"
#include "tensor/dtype.h"

namespace caption::kernels::cpu {
namespace {

// Assigns consecutive pieces of the stream's scratch memory, each aligned to a cache line.
class ScratchPieces {
 public:
  template <class T>
  std::size_t add(std::int64_t count) {
    const std::size_t at = size_bytes_;
    size_bytes_ += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return at;
  }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  std::size_t size_bytes_ = 0;
};

// Writes the elements x[order[i]] of a row of `count` elements as bf16.
void round_in_order(const Tier& tier, const float* x, const std::int32_t* order, std::int64_t count,
                    std::uint16_t* to) {
  constexpr std::int64_t kPiece = 256;
  float piece[kPiece];
  for (std::int64_t first = 0; first < count; first += kPiece) {
    const std::int64_t size = std::min(kPiece, count - first);
    for (std::int64_t i = 0; i < size; ++i) piece[i] = x[order[first + i]];
    tier.to_bf16(piece, to + first, size);
  }
}

// Sums in 16 interleaved parts, then in a tree, so that the compiler can vectorise it.
float sum_of(const std::uint16_t* a, std::int64_t count) {
  constexpr int kLanes = 16;
  float lanes[kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += to_float(BF16{a[k + lane]});
  }
  for (int lane = 0; k < count; ++k, ++lane) lanes[lane] += to_float(BF16{a[k]});
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

}  // namespace

Activations round_to_bf16(Stream& stream, const Tier& tier, ConstView x,
                          std::span<const LinearPart> parts) {
  const PackedWeight& weight = PackedWeight::of(parts.front().weight);
  const std::int64_t num_rows = x.dim(0);
  const std::int64_t k = x.dim(1);
  const std::int64_t num_columns = 2 * weight.panels().dim(1);
  const bool needs_sums = std::any_of(parts.begin(), parts.end(), [](const LinearPart& part) {
    return !PackedWeight::of(part.weight).offsets().empty();
  });
  const std::int64_t group = weight.group_columns();
  const std::int64_t groups = needs_sums ? divide_up(num_columns, group) : std::int64_t{0};
  const RowOrder order(tier.reads_tiled_rows, num_rows, 2 * num_columns);
  ScratchPieces pieces;
  const std::size_t bf16_at = pieces.add<std::byte>(num_rows * order.row_bytes());
  const std::size_t sums_at = pieces.add<float>(num_rows * groups);
  std::byte* const scratch = stream.scratch(pieces.size_bytes());
  auto* const sums = reinterpret_cast<float*>(scratch + sums_at);
  const ConstView columns = weight.column_order();
  parallel_for(stream, num_rows, k, [&](std::int64_t begin, std::int64_t end) {
    order.write_rows(scratch + bf16_at, begin, end, [&](std::int64_t m, std::byte* to) {
      const float* const from = x.as<float>() + m * x.row_stride();
      auto* const row = reinterpret_cast<std::uint16_t*>(to);
      if (columns.empty()) {
        tier.to_bf16(from, row, k);
      } else {
        round_in_order(tier, from, columns.as<std::int32_t>(), k, row);
      }
      std::fill(row + k, row + order.row_bytes() / 2, std::uint16_t{0});
      for (std::int64_t g = 0; g < groups; ++g) {
        sums[m * groups + g] = sum_of(row + g * group, std::min(group, num_columns - g * group));
      }
    });
  });
  return {.row_bytes = order.row_bytes(),
          .has_tiled_rows = tier.reads_tiled_rows,
          .bf16 = reinterpret_cast<const std::uint16_t*>(scratch + bf16_at),
          .group_sums = sums};
}

namespace {

auto panel_product(const Tier& tier, PackedWeight::Layout layout) {
  if (layout == PackedWeight::Layout::kPanelsE4M3) return tier.panel_e4m3;
  return layout == PackedWeight::Layout::kPanels8 ? tier.panel8 : tier.panel4;
}

}  // namespace

void multiply_quantised(const Tier& tier, const Activations& x, const PackedWeight& weight,
                        const Block& block, float* tile) {
  const std::int64_t groups = weight.scales().dim(1);
  const bool has_offsets = !weight.offsets().empty();
  const auto multiply = panel_product(tier, weight.layout());
  for (std::int64_t i = 0; i < block.num_panels(); ++i) {
    const std::int64_t panel = block.first_panel() + i;
    QuantisedArgs args = weight.panel_args(panel);
    args.a = x.bf16 + block.first_row * x.bf16_stride();
    args.a_stride = x.bf16_stride();
    args.a_sums = has_offsets ? x.group_sums + block.first_row * groups : nullptr;
    args.a_sums_stride = groups;
    args.c = tile + i * kPanelColumns;
    args.c_stride = kBlockFeatures;
    args.m = block.num_rows;
    multiply(args);
  }
}

Activations round_to_8_bits(Stream& stream, const Tier& tier, ConstView x,
                            std::span<const LinearPart> parts) {
  const PackedWeight& weight = PackedWeight::of(parts.front().weight);
  const std::int64_t num_rows = x.dim(0);
  const std::int64_t k = x.dim(1);
  const RowOrder order(tier.reads_tiled_rows, num_rows, 4 * weight.panels().dim(1));
  const bool needs_sums =
      tier.needs_code_sums && weight.layout() == PackedWeight::Layout::kPanels4A8;
  const std::int64_t group = weight.group_columns();
  const std::int64_t groups = needs_sums ? weight.steps().dim(1) : std::int64_t{0};
  ScratchPieces pieces;
  const std::size_t codes_at = pieces.add<std::byte>(num_rows * order.row_bytes());
  const std::size_t rows_at = pieces.add<IntegerRow>(num_rows);
  const std::size_t sums_at = pieces.add<std::int16_t>(num_rows * groups);
  std::byte* const scratch = stream.scratch(pieces.size_bytes());
  auto* const rows = reinterpret_cast<IntegerRow*>(scratch + rows_at);
  auto* const sums = reinterpret_cast<std::int16_t*>(scratch + sums_at);
  parallel_for(stream, num_rows, k, [&](std::int64_t begin, std::int64_t end) {
    order.write_rows(scratch + codes_at, begin, end, [&](std::int64_t m, std::byte* to) {
      auto* const codes = reinterpret_cast<std::int8_t*>(to);
      rows[m] = tier.to_int8(x.as<float>() + m * x.row_stride(), codes, k);
      std::fill(codes + k, codes + order.row_bytes(), std::int8_t{0});
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t group_end = std::min(k, (g + 1) * group);
        sums[m * groups + g] = static_cast<std::int16_t>(
            std::accumulate(codes + g * group, codes + group_end, std::int32_t{0}));
      }
    });
  });
  return {.row_bytes = order.row_bytes(),
          .has_tiled_rows = tier.reads_tiled_rows,
          .codes = reinterpret_cast<const std::int8_t*>(scratch + codes_at),
          .integers = rows,
          .code_sums = needs_sums ? sums : nullptr};
}

namespace {

// Computes the exact sums of a block's rows and one panel of kPanels4A8; `steps` are the weight's,
// `code_sums` those of the block's rows.
void sum_panel_4a8(const Tier& tier, const PackedWeight& weight, const ConstView& steps,
                   std::int64_t panel, const std::int16_t* code_sums, const IntegerArgs& args) {
  tier.panel4a8({.a = args.a,
                 .a_stride = args.a_stride,
                 .a_sums = code_sums,
                 .a_sums_stride = steps.dim(1),
                 .codes = args.panel,
                 .steps = steps.as<std::uint8_t>() + panel * steps.row_stride(),
                 .num_quads = args.num_quads,
                 .group_quads = weight.group_columns() / 4,
                 .c = args.c,
                 .c_stride = args.c_stride,
                 .m = args.m});
}

}  // namespace

void multiply_integers(const Tier& tier, const Activations& x, const PackedWeight& weight,
                       const Block& block, float* tile) {
  // Made once for all panels: a view checks its shape.
  const ConstView panels = weight.panels();
  const ConstView steps = weight.steps();
  const auto* const scales = weight.scales().as<float>();
  const std::int64_t quads = panels.dim(1);
  const std::int16_t* const code_sums =
      x.code_sums == nullptr ? nullptr : x.code_sums + block.first_row * steps.dim(1);
  alignas(64) std::int32_t sums[kMostBlockRows * kPanelColumns];
  for (std::int64_t i = 0; i < block.num_panels(); ++i) {
    const std::int64_t panel = block.first_panel() + i;
    const IntegerArgs args{.a = x.codes + block.first_row * x.row_bytes,
                           .a_stride = x.row_bytes,
                           .panel = panels.as<std::uint8_t>() + panel * panels.row_stride(),
                           .num_quads = quads,
                           .c = sums,
                           .c_stride = kPanelColumns,
                           .m = block.num_rows};
    if (weight.layout() == PackedWeight::Layout::kPanels8A8) {
      tier.panel8a8(args);
    } else {
      sum_panel_4a8(tier, weight, steps, panel, code_sums, args);
    }
    tier.scale_integers({.sums = sums,
                         .rows = x.integers + block.first_row,
                         .scales = scales + panel * kPanelColumns,
                         .y = tile + i * kPanelColumns,
                         .y_stride = kBlockFeatures,
                         .m = block.num_rows});
  }
}

}  // namespace caption::kernels::cpu
