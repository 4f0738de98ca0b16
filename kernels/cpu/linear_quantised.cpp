// The dense layer on the CPU: weights of 8 and 4 bits.
#include <cmath>
#include <limits>

#include "kernels/cpu/linear_blocks.h"
#include "tensor/dtype.h"

namespace caption::kernels::cpu {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Consecutive pieces of the stream's scratch memory, each on a cache line of its own.
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

// sums[m, g] = the sum over group g of row m of the rounded activations.
void sum_groups(Stream& stream, const std::uint16_t* a, std::int64_t num_rows,
                std::int64_t num_columns, std::int64_t group_columns, float* sums) {
  const std::int64_t groups = divide_up(num_columns, group_columns);
  parallel_for(stream, num_rows, num_columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t m = begin; m < end; ++m) {
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t last = std::min(num_columns, (g + 1) * group_columns);
        float lanes[16] = {};
        for (std::int64_t k = g * group_columns; k < last; ++k) {
          lanes[k % 16] += to_float(BF16{a[m * num_columns + k]});
        }
        for (int width = 8; width > 0; width /= 2) {
          for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
        }
        sums[m * groups + g] = lanes[0];
      }
    }
  });
}

// A row of activations as 8-bit integers: x ~ scale * codes.
struct IntegerRow {
  float scale;
  std::int32_t sum;  // of the codes
};

// A row with an infinity or a NaN gets the scale NaN, and NaNs for results.
IntegerRow round_to_8_bits(const float* x, std::int64_t count, std::int8_t* codes) {
  float largest = 0;
  bool is_finite = true;
  for (std::int64_t k = 0; k < count; ++k) {
    largest = std::max(largest, std::abs(x[k]));
    is_finite &= std::isfinite(x[k]);
  }
  if (!is_finite || largest == 0) {
    std::fill_n(codes, count, std::int8_t{0});
    return {.scale = is_finite ? 0.0F : std::numeric_limits<float>::quiet_NaN(), .sum = 0};
  }
  // Adding and subtracting it rounds |x| < 2^22 to an integer, nearest, ties to even.
  constexpr float kRounding = 0x1.8p23F;
  const float scale = largest / 127.0F;
  // Of a subnormal largest the inverse would be infinite; such a row is zero to 8 bits of anything.
  const float inverse = largest > 0x1p-100F ? 127.0F / largest : 0.0F;
  std::int32_t sum = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const auto code = static_cast<std::int32_t>((x[k] * inverse + kRounding) - kRounding);
    codes[k] = static_cast<std::int8_t>(code);
    sum += code;
  }
  return {.scale = scale, .sum = sum};
}

// tile = (sums - 128 * sum of the row's codes) * the row's scale * the feature's.
void scale_tile(const std::int32_t* sums, const IntegerRow* rows, const float* scales,
                std::int64_t num_rows, float* tile) {
  for (std::int64_t m = 0; m < num_rows; ++m) {
    for (std::int64_t n = 0; n < kPanelColumns; ++n) {
      const std::int32_t sum = sums[m * kPanelColumns + n] - 128 * rows[m].sum;
      tile[m * kBlockFeatures + n] = static_cast<float>(sum) * (rows[m].scale * scales[n]);
    }
  }
}

}  // namespace

void linear_quantised(Stream& stream, const Tier& tier, ConstView x, const PackedWeight& weight,
                      const Epilogue& epilogue) {
  const bool is_8_bit = weight.layout() == PackedWeight::Layout::kPanels8;
  const ConstView panels = weight.panels();
  const std::int64_t num_pairs = panels.dim(1);
  const std::int64_t groups = weight.scales().dim(1);
  const std::int64_t num_rows = x.dim(0);
  const bool has_offsets = !weight.offsets().empty();
  ScratchPieces pieces;
  const std::size_t a_at = pieces.add<std::uint16_t>(num_rows * 2 * num_pairs);
  const std::size_t sums_at = pieces.add<float>(has_offsets ? num_rows * groups : 0);
  std::byte* const scratch = stream.scratch(pieces.size_bytes());
  auto* const a = reinterpret_cast<std::uint16_t*>(scratch + a_at);
  auto* const a_sums = reinterpret_cast<float*>(scratch + sums_at);
  round_rows(stream, tier, x, 2 * num_pairs, a);
  if (has_offsets) {
    sum_groups(stream, a, num_rows, 2 * num_pairs, weight.group_columns(), a_sums);
  }
  const auto multiply = is_8_bit ? tier.panel8 : tier.panel4;
  const auto* const codes = static_cast<const std::uint8_t*>(panels.raw());
  const auto* const codebook = reinterpret_cast<const std::uint16_t*>(weight.codebook().data());
  for_each_block(stream, tier, x.dim(1), epilogue, [&](const Block& block, float* tile) {
    for (std::int64_t i = 0; i < block.num_panels(); ++i) {
      const std::int64_t panel = block.first_panel() + i;
      const std::int64_t first_scale = panel * groups * kPanelColumns;
      multiply({.a = a + block.first_row * 2 * num_pairs,
                .a_stride = 2 * num_pairs,
                .a_sums = a_sums + block.first_row * groups,
                .a_sums_stride = groups,
                .codes = codes + panel * panels.row_stride(),
                .codebook = codebook,
                .scales = weight.scales().as<float>() + first_scale,
                .offsets = has_offsets ? weight.offsets().as<float>() + first_scale : nullptr,
                .num_pairs = num_pairs,
                .group_pairs = weight.group_columns() / 2,
                .c = tile + i * kPanelColumns,
                .c_stride = kBlockFeatures,
                .m = block.num_rows});
    }
  });
}

void linear_8a8(Stream& stream, const Tier& tier, ConstView x, const PackedWeight& weight,
                const Epilogue& epilogue) {
  const ConstView panels = weight.panels();
  const std::int64_t quads = panels.dim(1);
  const std::int64_t num_rows = x.dim(0);
  const std::int64_t k = x.dim(1);
  ScratchPieces pieces;
  const std::size_t codes_at = pieces.add<std::int8_t>(num_rows * 4 * quads);
  const std::size_t rows_at = pieces.add<IntegerRow>(num_rows);
  std::byte* const scratch = stream.scratch(pieces.size_bytes());
  auto* const codes = reinterpret_cast<std::int8_t*>(scratch + codes_at);
  auto* const rows = reinterpret_cast<IntegerRow*>(scratch + rows_at);
  parallel_for(stream, num_rows, 2 * k, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t m = begin; m < end; ++m) {
      std::int8_t* const to = codes + m * 4 * quads;
      rows[m] = round_to_8_bits(x.as<float>() + m * x.row_stride(), k, to);
      std::fill(to + k, to + 4 * quads, std::int8_t{0});
    }
  });
  const auto* const weights = panels.as<std::uint8_t>();
  for_each_block(stream, tier, k, epilogue, [&](const Block& block, float* tile) {
    alignas(64) std::int32_t sums[kBlockRows * kPanelColumns];
    for (std::int64_t i = 0; i < block.num_panels(); ++i) {
      const std::int64_t panel = block.first_panel() + i;
      tier.panel8a8({.a = codes + block.first_row * 4 * quads,
                     .a_stride = 4 * quads,
                     .panel = weights + panel * panels.row_stride(),
                     .num_quads = quads,
                     .c = sums,
                     .c_stride = kPanelColumns,
                     .m = block.num_rows});
      scale_tile(sums, rows + block.first_row, weight.scales().as<float>() + panel * kPanelColumns,
                 block.num_rows, tile + i * kPanelColumns);
    }
  });
}

}  // namespace caption::kernels::cpu
