// Checkpoints of 8-bit floating-point weights (quant_method "fp8") as transformers, vLLM and the
// authors of DeepSeek-V3 and Qwen3 write them.
//   <module>.weight            F8_E4M3 [N, K]
//   <module>.weight_scale_inv  F32 or BF16 [ceil(N / rows), ceil(K / columns)] where
//                              weight_block_size is [rows, columns]; one number without it
//   <module>.weight_scale      one number, or one for each of the N rows
//   W[n, k] = weight[n, k] * scale, computed in f32 and rounded to bf16; models in fp8, and those
//   in bf16 on CPUs, keep the numbers and scales (Source::e4m3_of())
// The scales of inputs (input_scale, activation_scale) are not used: inputs are not rounded to 8
// bits here.
// Sources: transformers 4.57 and 5.24 (integrations/finegrained_fp8.py,
// utils/quantization_config.py); vLLM (model_executor/layers/quantization/fp8.py); DeepSeek-V3
// (inference/kernel.py, weight_dequant); arXiv:2209.05433 for the numbers (tensor/e4m3.h).
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/mend_advice.h"
#include "tensor/e4m3.h"
#include "weights/internal/fp8_tensor.h"

namespace caption::weights {
namespace {

// The products of the numbers of all bytes and a scale.
std::array<BF16, 256> scaled_numbers(float scale) {
  static const std::array<float, 256> kNumbers = [] {
    std::array<float, 256> numbers{};
    for (std::size_t byte = 0; byte < numbers.size(); ++byte) {
      numbers[byte] = from_e4m3(static_cast<std::uint8_t>(byte));
    }
    return numbers;
  }();
  std::array<BF16, 256> scaled{};
  for (std::size_t byte = 0; byte < scaled.size(); ++byte) {
    scaled[byte] = to_bf16(kNumbers[byte] * scale);
  }
  return scaled;
}

// The first NaN, or the end. Blocks are looked through without a way out of the loop, so that
// compilers make it one of vectors.
const std::uint8_t* find_nan(const std::uint8_t* begin, const std::uint8_t* end) {
  constexpr std::ptrdiff_t kBlock = 4096;
  while (begin != end) {
    const std::uint8_t* const end_of_block = begin + std::min(kBlock, end - begin);
    std::uint8_t largest = 0;  // with the sign bit set, NaN of both signs are the largest codes
    for (const std::uint8_t* code = begin; code != end_of_block; ++code) {
      largest = std::max(largest, static_cast<std::uint8_t>(*code | 0x80u));
    }
    if (is_nan_e4m3(largest)) return std::find_if(begin, end_of_block, is_nan_e4m3);
    begin = end_of_block;
  }
  return end;
}

class Fp8Tensor final : public CodedTensor {
 public:
  Fp8Tensor(Part codes, ScaleGrid scales, ScaleBlock block, std::vector<std::string> parts)
      : CodedTensor(std::move(parts)),
        codes_(std::move(codes)),
        scales_(std::move(scales)),
        block_(block) {}

  Shape shape() const override { return {codes_.dim(0), codes_.dim(1)}; }
  std::optional<StoredCodes> codes() const override { return std::nullopt; }
  std::optional<StoredCodes> e4m3() const override;
  QuantisedMatrix read_codes(std::int64_t first, std::int64_t count) const override;
  QuantisedMatrix borrow_codes(std::int64_t first, std::int64_t count) const override;
  Tensor decode() const override;

 private:
  bool has_row_scales() const { return scales_.num_across() == 1; }
  // Returns rows without their codes.
  QuantisedMatrix read_scales(std::int64_t first, std::int64_t count) const;
  // Throws for rows with a NaN.
  void require_numbers(std::int64_t first, std::int64_t count) const;

  Part codes_;
  ScaleGrid scales_;
  ScaleBlock block_;
};

std::optional<StoredCodes> Fp8Tensor::e4m3() const {
  return StoredCodes{.method = has_row_scales() ? "fp8" : "fp8 with scales of blocks",
                     .format = has_row_scales() ? MatrixFormat::kE4M3Row : MatrixFormat::kBF16,
                     .layout = {.is_8_bit = true,
                                .group_columns = std::min(block_.columns, shape()[1]),
                                .numbers = {.scales = scales_.dtype()}}};
}

QuantisedMatrix Fp8Tensor::read_scales(std::int64_t first, std::int64_t count) const {
  QuantisedMatrix matrix;
  matrix.num_columns = shape()[1];
  matrix.group_columns = std::min(block_.columns, matrix.num_columns);
  matrix.has_e4m3_codes = true;
  matrix.number_dtypes = {.scales = scales_.dtype()};
  matrix.scales = Tensor(DType::kF32, {count, scales_.num_across()});
  scales_.read_rows(first, count, matrix.scales.as<float>());
  return matrix;
}

void Fp8Tensor::require_numbers(std::int64_t first, std::int64_t count) const {
  const std::int64_t columns = shape()[1];
  const auto* const begin = codes_.as<std::uint8_t>();
  const std::uint8_t* const end = begin + (first + count) * columns;
  const std::uint8_t* const nan = find_nan(begin + first * columns, end);
  if (nan == end) return;
  fail_part(codes_, "holds NaN in row " + std::to_string((nan - begin) / columns) + ", column " +
                        std::to_string((nan - begin) % columns));
}

QuantisedMatrix Fp8Tensor::read_codes(std::int64_t first, std::int64_t count) const {
  const std::int64_t columns = shape()[1];
  QuantisedMatrix matrix = read_scales(first, count);
  matrix.codes = Tensor(DType::kI8, {count, columns});
  const auto* const from = codes_.as<std::uint8_t>() + first * columns;
  require_numbers(first, count);
  std::copy_n(from, count * columns, static_cast<std::uint8_t*>(matrix.codes.view().raw()));
  return matrix;
}

QuantisedMatrix Fp8Tensor::borrow_codes(std::int64_t first, std::int64_t count) const {
  const std::int64_t columns = shape()[1];
  QuantisedMatrix matrix = read_scales(first, count);
  matrix.file_codes = {.is_4_bit = false, .num_rows = count};
  matrix.file_codes.rows.reserve(static_cast<std::size_t>(count));
  for (std::int64_t n = first; n < first + count; ++n) {
    matrix.file_codes.rows.push_back(codes_.as<std::uint8_t>() + n * columns);
  }
  return matrix;
}

Tensor Fp8Tensor::decode() const {
  const std::int64_t rows = shape()[0];
  const std::int64_t columns = shape()[1];
  const auto* const codes = codes_.as<std::uint8_t>();
  require_numbers(0, rows);
  Tensor numbers(DType::kBF16, shape());
  for (std::int64_t n = 0; n < rows; n += block_.rows) {
    const std::int64_t end_row = std::min(rows, n + block_.rows);
    for (std::int64_t k = 0; k < columns; k += block_.columns) {
      const std::int64_t end = std::min(columns, k + block_.columns);
      const std::array<BF16, 256> scaled = scaled_numbers(scales_.at(n, k / block_.columns));
      for (std::int64_t row = n; row < end_row; ++row) {
        const auto* const from = codes + row * columns;
        BF16* const to = numbers.as<BF16>() + row * columns;
        for (std::int64_t i = k; i < end; ++i) to[i] = scaled[from[i]];
      }
    }
  }
  return numbers;
}

// Throws for a configuration that says that the values are made otherwise. Returns no block without
// weight_block_size.
std::optional<ScaleBlock> read_block(const JsonObject& config) {
  // The keys that are not read below choose modules and say how inputs are rounded.
  refuse_unknown_keys(config, {"quant_method", "activation_scheme", "weight_block_size", "fmt",
                               "scale_fmt", "modules_to_not_convert", "modules_to_convert",
                               "ignored_layers", "dequantize", "expert_dtype"});
  const std::string format = config.get_string("fmt", "e4m3");
  if (format != "e4m3" && format != "float8_e4m3fn") {
    refuse_value(config, "fmt " + quote_name(format), "e4m3 is");
  }
  const std::string experts = config.get_string("expert_dtype", "fp8");
  if (experts != "fp8") refuse_value(config, "expert_dtype " + quote_name(experts), "fp8 is");
  if (!config.has("weight_block_size")) return std::nullopt;
  const std::vector<std::int64_t> block = config.get_ints("weight_block_size");
  constexpr std::int64_t kMaxExtent = 1 << 20;
  const auto is_extent = [](std::int64_t extent) { return extent > 0 && extent <= kMaxExtent; };
  if (block.size() != 2 || !is_extent(block[0]) || !is_extent(block[1])) {
    throw Error(ErrorCode::kBadModel, config.name() +
                                          ".weight_block_size: " + extents_to_string(block) +
                                          "; rows and columns of a block were expected" +
                                          mend_advice(ErrorCode::kBadModel));
  }
  return ScaleBlock{.rows = block[0], .columns = block[1]};
}

}  // namespace

std::unique_ptr<CodedTensor> make_fp8_tensor(Module& module, const Part& scales, ScaleBlock block) {
  const Part codes = module.require("weight", {"F8_E4M3"}, 2);
  if (codes.tensor->num_elements == 0) fail_part(codes, "is empty");
  const Shape shape = {codes.dim(0), codes.dim(1)};
  if (block.rows == 0) block.rows = shape[0];
  if (block.columns == 0) block.columns = shape[1];
  module.add_parts({"input_scale", "activation_scale"});
  return std::make_unique<Fp8Tensor>(
      codes, ScaleGrid(scales, shape, block, kLargestE4M3, ScaleSign::kNotNegative), block,
      module.parts());
}

CodedTensors find_fp8(const Checkpoint& file, const JsonObject& config) {
  const std::optional<ScaleBlock> block = read_block(config);
  CodedTensors tensors;
  for (const char* const suffix : {"weight_scale_inv", "weight_scale"}) {
    for (const std::string& name : modules_with(file, suffix)) {
      Module module(file, name);
      const Part scales = module.require_any_rank(suffix, {"F32", "BF16", "F16"});
      const bool is_one = scales.tensor->num_elements == 1;
      const bool is_per_row = suffix == std::string_view("weight_scale") && !is_one;
      ScaleBlock shared = {.rows = 0, .columns = 0};
      if (is_per_row) shared.rows = 1;
      tensors.emplace(
          module.tensor("weight"),
          make_fp8_tensor(module, scales, block && !is_one && !is_per_row ? *block : shared));
    }
  }
  refuse_bare_codes(file, tensors, "F8_E4M3", {"weight_scale_inv", "weight_scale"});
  return tensors;
}

}  // namespace caption::weights
