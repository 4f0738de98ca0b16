// bitsandbytes checkpoints: nf4 and fp4, with scales of 32 or 8 bits, and LLM.int8().
//
// 4 bits: blocks of 64 numbers of the matrix [N, K] row by row, regardless of where rows end.
//   <module>.weight             [ceil(N * K / 2)] bytes; the earlier number in the high half
//   <module>.weight.absmax      F32 [blocks]; U8 with double quantisation
//   <module>.weight.quant_map   F32 [16]; the table of nf4 or fp4. The library multiplies single
//     rows by this one, but decodes with the one that it holds itself: others are refused.
//   <module>.weight.quant_state.bitsandbytes__nf4 (or __fp4)   U8: JSON with blocksize and shape
//   double quantisation: .nested_absmax F32 [ceil(blocks / 256)], .nested_quant_map F32 [256],
//     which is the library's table of scales: others are refused; and
//     absmax[i] = nested_quant_map[code[i]] * nested_absmax[i / 256] + nested_offset
//   W[n, k] = quant_map[code[n, k]] * absmax[(n * K + k) / 64]
// LLM.int8():
//   <module>.weight I8 [N, K], .SCB F32 [N]; .weight_format U8, 0
//   W[n, k] = code[n, k] * SCB[n] * (1 / 127)
// Sources: arXiv:2305.14314, arXiv:2208.07339; bitsandbytes 0.50 (bitsandbytes/functional.py:
// QuantState, dequantize_4bit, int8_vectorwise_dequant; backends/default/ops.py).
//
// Exactness: 4 bits: one rounding to f32, the library's. If 64 does not divide K, blocks continue
// across rows; then every row begins a block of gcd(64, K) columns with the scale of the block of
// 64 that it lies in, which is the same matrix. Below 8 columns its scales would take more than the
// codes: such a matrix has no codes and is read as numbers.
// LLM.int8(): the library rounds code * SCB to f32, then its product with 1 / 127; here SCB / 127
// is rounded, then its product with the code. Numbers are decoded as the library does; the product
// of code and scale differs from that by at most 3 units of the last place. Inputs are not rounded
// to 8 bits when they are multiplied, so no column has to be treated as an outlier.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/math.h"
#include "weights/internal/coded_source.h"
#include "weights/internal/scales.h"
#include "weights/quantise.h"

namespace caption::weights {
namespace {

// What quant_state says.
struct BlockFormat {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t block = 64;
  std::int64_t nested_block = 0;  // 0: scales are f32
  float nested_offset = 0;

  std::int64_t num_blocks() const { return divide_up(rows * columns, block); }
};

BlockFormat parse_state(const Part& state, const std::string& quant_type) {
  const std::string_view text(state.as<char>(), state.tensor->bytes.size());
  const JsonObject json = JsonObject::parse(text, state.where(), ErrorCode::kBadModel);
  refuse_unknown_keys(json, {"quant_type", "blocksize", "dtype", "shape", "nested_blocksize",
                             "nested_dtype", "nested_offset"});
  const std::string type = json.require_string("quant_type");
  if (type != quant_type) {
    fail_part(state, "is of quant_type " + quote_name(type) + "; " + quote_name(quant_type) +
                         " was expected from its name");
  }
  const std::vector<std::int64_t> shape = json.get_ints("shape");
  constexpr std::int64_t kMaxExtent = std::int64_t{1} << 31;
  const auto is_extent = [](std::int64_t extent) { return extent > 0 && extent < kMaxExtent; };
  if (shape.size() != 2 || !is_extent(shape[0]) || !is_extent(shape[1])) {
    fail_part(state, "has shape " + extents_to_string(shape) + "; a matrix was expected");
  }
  BlockFormat format{.rows = shape[0], .columns = shape[1]};
  format.block = json.require_int("blocksize", 1, 1 << 20);
  const std::string of_numbers = json.get_string("dtype", "float32");
  if (of_numbers != "float32" && of_numbers != "float16" && of_numbers != "bfloat16") {
    refuse_value(json, "dtype " + quote_name(of_numbers), "bfloat16, float16 and float32 are");
  }
  if (!json.has("nested_blocksize")) return format;
  format.nested_block = json.require_int("nested_blocksize", 1, 1 << 20);
  if (!json.has("nested_offset")) fail_part(state, "has no nested_offset");
  format.nested_offset = static_cast<float>(json.get_double("nested_offset", 0));
  const std::string dtype = json.get_string("nested_dtype", "float32");
  if (dtype != "float32") refuse_value(json, "nested_dtype " + quote_name(dtype), "float32 is");
  return format;
}

// Throws unless the table is that of the library, apart from roundings of its divisions. `method`
// names it in messages.
void check_map(const Part& map, std::span<const float> expected, const std::string& method) {
  constexpr float kTolerance = 1e-5F;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto code = static_cast<std::int64_t>(i);
    const float found = finite_at(map, code);
    const float wanted = expected[i];
    if (std::abs(found - wanted) <= kTolerance * std::abs(wanted)) continue;
    fail_part(map, "holds " + json_number(found) + " for code " + std::to_string(code) + "; " +
                       json_number(wanted) + " of " + method + " was expected");
  }
}

// Read elements of a tensor that holds the largest magnitudes of blocks or rows. Both throw
// Error(kBadModel) for one that is not finite or is negative.
float magnitude_at(const Part& part, std::int64_t i) {
  const float number = finite_at(part, i);
  require_magnitudes(part, i, 1, &number);
  return number;
}

void read_magnitudes(const Part& part, std::int64_t first, std::int64_t count, float* to) {
  read_finite(part, first, count, to);
  require_magnitudes(part, first, count, to);
}

class BlockTensor final : public CodedTensor {
 public:
  BlockTensor(Module& module, const std::string& quant_type)
      : BlockTensor(read_parts(module, quant_type), quant_type, module) {}

  Shape shape() const override { return {parts_.format.rows, parts_.format.columns}; }
  std::optional<StoredCodes> codes() const override;
  QuantisedMatrix read_codes(std::int64_t first, std::int64_t count) const override;
  QuantisedMatrix borrow_codes(std::int64_t first, std::int64_t count) const override;
  Tensor decode() const override;

 private:
  struct Parts {
    BlockFormat format;
    Part codes, absmax, map;
    std::optional<Part> nested_absmax, nested_map;
  };

  BlockTensor(Parts parts, const std::string& quant_type, const Module& module)
      : CodedTensor(module.parts()),
        parts_(std::move(parts)),
        method_(quant_type == "nf4" ? "nf4" : "fp4"),
        group_columns_(std::gcd(parts_.format.block, parts_.format.columns)) {
    for (std::int64_t i = 0; i < 16; ++i) {
      codebook_[static_cast<std::size_t>(i)] = finite_at(parts_.map, i);
    }
  }

  static Parts read_parts(Module& module, const std::string& quant_type);
  unsigned code_at(std::int64_t i) const;
  float scale_at(std::int64_t block) const;
  // Whether the scales of all groups are numbers of the file in the order of the groups.
  bool has_block_per_group() const {
    return group_columns_ == parts_.format.block && !parts_.nested_absmax;
  }
  // Returns what all rows have in common, and no rows.
  QuantisedMatrix describe() const;
  // Returns a matrix of so many rows from `first` on without codes.
  QuantisedMatrix read_scales(std::int64_t first, std::int64_t count) const;

  Parts parts_;
  std::string_view method_;
  std::int64_t group_columns_;
  std::array<float, 16> codebook_{};
};

BlockTensor::Parts BlockTensor::read_parts(Module& module, const std::string& quant_type) {
  Parts parts;
  const Part state = module.require("weight.quant_state.bitsandbytes__" + quant_type, {"U8"}, 1);
  parts.format = parse_state(state, quant_type);
  const BlockFormat& format = parts.format;
  // bnb_4bit_quant_storage: the same bytes as numbers of another dtype.
  parts.codes = module.require("weight", {"U8", "BF16", "F16", "F32"}, 2);
  const auto bytes = std::ssize(parts.codes.tensor->bytes);
  const std::int64_t needed = divide_up(format.rows * format.columns, 2);
  if (bytes < needed || bytes > needed + 3) {
    fail_part(parts.codes, "has " + std::to_string(bytes) + " bytes; " + std::to_string(needed) +
                               " were expected for " + std::to_string(format.rows) + " x " +
                               std::to_string(format.columns) + " codes");
  }
  parts.map = module.require_shape("weight.quant_map", {"F32"}, {16});
  check_map(parts.map, quant_type == "nf4" ? nf4_codebook() : fp4_codebook(), quant_type);
  const std::int64_t blocks = format.num_blocks();
  const bool is_nested = format.nested_block > 0;
  parts.absmax = module.require_shape("weight.absmax", {is_nested ? "U8" : "F32"}, {blocks});
  if (!is_nested) return parts;
  parts.nested_absmax = module.require_shape("weight.nested_absmax", {"F32"},
                                             {divide_up(blocks, format.nested_block)});
  parts.nested_map = module.require_shape("weight.nested_quant_map", {"F32"}, {256});
  check_map(*parts.nested_map, dynamic_codebook(), "double quantisation");
  return parts;
}

std::optional<StoredCodes> BlockTensor::codes() const {
  if (group_columns_ < kMinGroupColumns && group_columns_ != parts_.format.columns) {
    return std::nullopt;
  }
  if (parts_.format.columns % 2 != 0) return std::nullopt;  // rows begin within a byte
  return StoredCodes{
      .method = method_,
      .format = parts_.format.nested_block > 0 ? MatrixFormat::kNf4Double : MatrixFormat::kNf4,
      .layout = {.group_columns = group_columns_}};
}

unsigned BlockTensor::code_at(std::int64_t i) const {
  const unsigned both = parts_.codes.as<std::uint8_t>()[i / 2];
  return i % 2 == 0 ? both >> 4u : both & 15u;
}

float BlockTensor::scale_at(std::int64_t block) const {
  if (!parts_.nested_absmax) return magnitude_at(parts_.absmax, block);
  // The sum may be a little below 0 where the scale that was rounded is near it.
  const std::int64_t code = parts_.absmax.as<std::uint8_t>()[block];
  const float nested = magnitude_at(*parts_.nested_absmax, block / parts_.format.nested_block);
  const float scale = finite_at(*parts_.nested_map, code) * nested + parts_.format.nested_offset;
  if (!std::isfinite(scale)) fail_part(parts_.absmax, "stands for a scale that is not finite");
  return scale;
}

QuantisedMatrix BlockTensor::read_codes(std::int64_t first, std::int64_t count) const {
  const std::int64_t columns = parts_.format.columns;
  QuantisedMatrix matrix = read_scales(first, count);
  matrix.codes = Tensor(DType::kU8, {count, columns / 2});
  const std::int64_t num_bytes = count * columns / 2;
  const auto* const from = parts_.codes.as<std::uint8_t>() + first * columns / 2;
  auto* const to = matrix.codes.as<std::uint8_t>();
  for (std::int64_t i = 0; i < num_bytes; ++i) {
    to[i] = static_cast<std::uint8_t>(from[i] << 4u | from[i] >> 4u);
  }
  return matrix;
}

QuantisedMatrix BlockTensor::borrow_codes(std::int64_t first, std::int64_t count) const {
  const std::int64_t row_bytes = parts_.format.columns / 2;
  const bool has_scales_in_file = has_block_per_group();
  QuantisedMatrix matrix = has_scales_in_file ? describe() : read_scales(first, count);
  if (has_scales_in_file) {
    const std::int64_t groups = matrix.num_groups();
    require_magnitudes(parts_.absmax, first * groups, count * groups,
                       parts_.absmax.as<float>() + first * groups);
    matrix.file_scales = {.dtype = DType::kF32,
                          .numbers = parts_.absmax.as<float>() + first * groups,
                          .row_stride = groups,
                          .group_stride = 1};
  }
  matrix.file_codes = {.order = CodeOrder::kRowsOddFirst, .num_rows = count};
  matrix.file_codes.rows.reserve(static_cast<std::size_t>(count));
  for (std::int64_t n = first; n < first + count; ++n) {
    matrix.file_codes.rows.push_back(parts_.codes.as<std::uint8_t>() + n * row_bytes);
  }
  return matrix;
}

QuantisedMatrix BlockTensor::describe() const {
  QuantisedMatrix matrix;
  matrix.num_columns = parts_.format.columns;
  matrix.group_columns = group_columns_;
  matrix.codebook = codebook_;
  return matrix;
}

QuantisedMatrix BlockTensor::read_scales(std::int64_t first, std::int64_t count) const {
  QuantisedMatrix matrix = describe();
  const std::int64_t groups = matrix.num_groups();
  matrix.scales = Tensor(DType::kF32, {count, groups});
  if (has_block_per_group()) {
    read_magnitudes(parts_.absmax, first * groups, count * groups, matrix.scales.as<float>());
    return matrix;
  }
  // The groups of all rows follow one another in the blocks, each of which holds whole groups.
  const std::int64_t groups_per_block = parts_.format.block / group_columns_;
  std::int64_t block = first * groups / groups_per_block;
  std::int64_t in_block = first * groups % groups_per_block;
  float scale = scale_at(block);
  for (std::int64_t i = 0; i < count * groups; ++i) {
    if (in_block == groups_per_block) {
      scale = scale_at(++block);
      in_block = 0;
    }
    matrix.scales.as<float>()[i] = scale;
    ++in_block;
  }
  return matrix;
}

Tensor BlockTensor::decode() const {
  Tensor numbers(DType::kF32, shape());
  const std::int64_t count = numbers.num_elements();
  for (std::int64_t first = 0; first < count; first += parts_.format.block) {
    const float scale = scale_at(first / parts_.format.block);
    const std::int64_t end = std::min(count, first + parts_.format.block);
    for (std::int64_t i = first; i < end; ++i) {
      numbers.as<float>()[i] = codebook_[code_at(i)] * scale;
    }
  }
  return numbers;
}

class RowTensor final : public CodedTensor {
 public:
  explicit RowTensor(Module& module) : RowTensor(read_parts(module), module) {}

  Shape shape() const override { return {parts_.codes.dim(0), parts_.codes.dim(1)}; }
  std::optional<StoredCodes> codes() const override {
    return StoredCodes{.method = "llm.int8",
                       .format = MatrixFormat::kInt8,
                       .layout = {.is_8_bit = true, .group_columns = shape()[1]}};
  }
  QuantisedMatrix read_codes(std::int64_t first, std::int64_t count) const override;
  QuantisedMatrix borrow_codes(std::int64_t first, std::int64_t count) const override;
  Tensor decode() const override;

 private:
  struct Parts {
    Part codes, scales;
  };

  RowTensor(Parts parts, const Module& module)
      : CodedTensor(module.parts()), parts_(std::move(parts)) {}

  static Parts read_parts(Module& module);
  QuantisedMatrix read_scales(std::int64_t first, std::int64_t count) const;

  Parts parts_;
};

RowTensor::Parts RowTensor::read_parts(Module& module) {
  Parts parts;
  parts.codes = module.require("weight", {"I8"}, 2);
  if (parts.codes.tensor->num_elements == 0) fail_part(parts.codes, "is empty");
  parts.scales = module.require_shape("SCB", {"F32"}, {parts.codes.dim(0)});
  const std::optional<Part> format = module.find("weight_format", {"U8"}, 0);
  if (format && format->as<std::uint8_t>()[0] != 0) {
    throw Error(ErrorCode::kUnavailable,
                format->where() + " says that the codes are ordered for a GPU (" +
                    std::to_string(format->as<std::uint8_t>()[0]) +
                    "); this build reads rows (0), which bitsandbytes 0.45 and later save");
  }
  return parts;
}

QuantisedMatrix RowTensor::read_codes(std::int64_t first, std::int64_t count) const {
  const std::int64_t columns = shape()[1];
  QuantisedMatrix matrix = read_scales(first, count);
  matrix.codes = Tensor(DType::kI8, {count, columns});
  std::copy_n(parts_.codes.as<std::int8_t>() + first * columns, count * columns,
              matrix.codes.as<std::int8_t>());
  return matrix;
}

QuantisedMatrix RowTensor::borrow_codes(std::int64_t first, std::int64_t count) const {
  const std::int64_t columns = shape()[1];
  QuantisedMatrix matrix = read_scales(first, count);
  matrix.file_codes = {.is_4_bit = false, .num_rows = count};
  matrix.file_codes.rows.reserve(static_cast<std::size_t>(count));
  for (std::int64_t n = first; n < first + count; ++n) {
    matrix.file_codes.rows.push_back(parts_.codes.as<std::uint8_t>() + n * columns);
  }
  return matrix;
}

QuantisedMatrix RowTensor::read_scales(std::int64_t first, std::int64_t count) const {
  QuantisedMatrix matrix;
  matrix.num_columns = shape()[1];
  matrix.group_columns = shape()[1];
  matrix.scales = Tensor(DType::kF32, {count, 1});
  auto* const scales = matrix.scales.as<float>();
  read_magnitudes(parts_.scales, first, count, scales);
  std::transform(scales, scales + count, scales, [](float scale) { return scale / 127.0F; });
  return matrix;
}

Tensor RowTensor::decode() const {
  constexpr float kPerStep = 7.874015718698502e-3F;  // 1 / 127, as the library writes it
  Tensor numbers(DType::kF32, shape());
  const std::int64_t columns = shape()[1];
  for (std::int64_t n = 0; n < shape()[0]; ++n) {
    const float scale = magnitude_at(parts_.scales, n);
    const std::int8_t* const codes = parts_.codes.as<std::int8_t>() + n * columns;
    float* const to = numbers.as<float>() + n * columns;
    for (std::int64_t k = 0; k < columns; ++k) {
      to[k] = static_cast<float>(codes[k]) * scale * kPerStep;
    }
  }
  return numbers;
}

}  // namespace

CodedTensors find_bitsandbytes(const Checkpoint& file, const JsonObject& config) {
  // What the keys say about values, the tensors of the file say themselves; the others choose
  // modules and say how to run them.
  refuse_unknown_keys(
      config, {"quant_method", "load_in_4bit", "load_in_8bit", "_load_in_4bit", "_load_in_8bit",
               "bnb_4bit_compute_dtype", "bnb_4bit_quant_storage", "bnb_4bit_quant_type",
               "bnb_4bit_use_double_quant", "llm_int8_enable_fp32_cpu_offload",
               "llm_int8_has_fp16_weight", "llm_int8_skip_modules", "llm_int8_threshold"});
  CodedTensors tensors;
  for (const std::string quant_type : {"nf4", "fp4"}) {
    const std::string state = "weight.quant_state.bitsandbytes__" + quant_type;
    const std::vector<std::string> modules = modules_with(file, state);
    const RequestedPages requested = request_parts(file, modules, {state, "weight.quant_map"});
    for (const std::string& name : modules) {
      Module module(file, name);
      tensors.emplace(module.tensor("weight"), std::make_unique<BlockTensor>(module, quant_type));
    }
  }
  const std::vector<std::string> modules = modules_with(file, "SCB");
  const RequestedPages requested = request_parts(file, modules, {"weight_format"});
  for (const std::string& name : modules) {
    Module module(file, name);
    tensors.emplace(module.tensor("weight"), std::make_unique<RowTensor>(module));
  }
  refuse_bare_codes(file, tensors, "I8", {"SCB"});
  refuse_bare_codes(
      file, tensors, "U8",
      {"weight.quant_state.bitsandbytes__nf4", "weight.quant_state.bitsandbytes__fp4"});
  return tensors;
}

}  // namespace caption::weights
