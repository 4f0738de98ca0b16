#include "bench/weight_layout.h"

#include <array>

#include "tensor/dtype.h"

namespace caption::bench {
namespace {

constexpr std::array kLayouts = {WeightLayout::kF32,  WeightLayout::kBF16,      WeightLayout::kF16,
                                 WeightLayout::kInt8, WeightLayout::kW8A8,      WeightLayout::kInt4,
                                 WeightLayout::kNf4,  WeightLayout::kNf4Double, WeightLayout::kAwq};

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Bytes of a weight that the layout does not quantise.
std::int64_t plain_bytes(WeightLayout layout) { return layout == WeightLayout::kF32 ? 4 : 2; }

}  // namespace

std::string_view weight_layout_name(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kF32: return "f32";
    case WeightLayout::kBF16: return "bf16";
    case WeightLayout::kF16: return "f16";
    case WeightLayout::kInt8: return "int8, groups of 128";
    case WeightLayout::kInt4: return "int4, groups of 128";
    case WeightLayout::kW8A8: return "w8a8";
    case WeightLayout::kNf4: return "nf4";
    case WeightLayout::kNf4Double: return "nf4, double quantised";
    case WeightLayout::kAwq: return "awq, groups of 128";
  }
  return "?";
}

std::span<const WeightLayout> all_weight_layouts() { return kLayouts; }

std::int64_t matrix_bytes(const model::LinearShape& matrix, WeightLayout layout) {
  const std::int64_t count = matrix.num_weights();
  switch (layout) {
    case WeightLayout::kF32: return 4 * count;
    case WeightLayout::kBF16:
    case WeightLayout::kF16: return 2 * count;
    case WeightLayout::kInt8: return count + 4 * matrix.out * divide_up(matrix.in, 128);
    case WeightLayout::kInt4:
      return matrix.out * (divide_up(matrix.in, 2) + 8 * divide_up(matrix.in, 128));
    case WeightLayout::kW8A8: return count + 4 * matrix.out;
    case WeightLayout::kNf4: return divide_up(count, 2) + 4 * divide_up(count, 64);
    case WeightLayout::kNf4Double: {
      const std::int64_t blocks = divide_up(count, 64);
      return divide_up(count, 2) + blocks + 4 * divide_up(blocks, 256);
    }
    case WeightLayout::kAwq: {
      const std::int64_t groups = divide_up(matrix.in, 128);
      const std::int64_t zeros_words = groups * divide_up(matrix.out, 8);
      return matrix.in * divide_up(matrix.out, 8) * 4 + 2 * groups * matrix.out + 4 * zeros_words;
    }
  }
  return 0;
}

std::int64_t projection_bytes(const model::TextShape& shape, WeightLayout layout) {
  std::int64_t bytes = 0;
  for (const model::LinearShape& matrix : model::layer_matrices(shape)) {
    bytes += matrix_bytes(matrix, layout);
  }
  return bytes * shape.num_layers;
}

std::int64_t head_bytes(const model::TextShape& shape, WeightLayout layout) {
  const model::LinearShape head{.out = shape.vocab, .in = shape.hidden};
  switch (layout) {
    case WeightLayout::kW8A8: return matrix_bytes(head, layout);
    case WeightLayout::kInt8:
    case WeightLayout::kInt4:
    case WeightLayout::kNf4: return matrix_bytes(head, WeightLayout::kInt8);
    default: return head.num_weights() * plain_bytes(layout);
  }
}

std::int64_t weight_bytes(const model::ModelShape& shape, WeightLayout layout) {
  const model::ParameterCounts counts = model::count_parameters(shape);
  std::int64_t bytes = 0;
  std::int64_t plain = counts.total() - counts.projections;
  if (shape.text.has_value()) {
    bytes += projection_bytes(*shape.text, layout) + head_bytes(*shape.text, layout);
    plain -= shape.text->vocab * shape.text->hidden;
  }
  if (shape.vision.has_value() && layout == WeightLayout::kW8A8) {
    for (const model::LinearShape& matrix : model::tower_matrices(*shape.vision)) {
      bytes += matrix_bytes(matrix, layout);
      plain -= matrix.num_weights();
    }
  }
  return bytes + plain * plain_bytes(layout);
}

std::int64_t held_weight_bytes(const model::ModelShape& shape, WeightLayout layout) {
  if (layout != WeightLayout::kF32) return weight_bytes(shape, layout);
  return model::count_parameters(shape).total() *
         static_cast<std::int64_t>(dtype_size_bytes(shape.stored_dtype));
}

}  // namespace caption::bench
