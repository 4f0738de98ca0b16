// bitsandbytes: the tensors of lib/weights/bitsandbytes_source.cpp, as the library saves them.
//
// The length of a quant_state must not depend on the numbers, because headers are written first:
// its JSON ends in spaces.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "base/json.h"
#include "base/math.h"
#include "quantise/blocks.h"
#include "quantise/format.h"
#include "quantise/internal/config_json.h"
#include "quantise/internal/numbers.h"
#include "quantise/rounding.h"
#include "weights/quantise.h"

namespace caption::quantise {
namespace {

using weights::plan_tensor;
using weights::PlannedTensor;

// Characters of the longest number in JSON.
constexpr std::size_t kLongestNumber = 24;

template <class T, class Container>
Bytes bytes_of(const Container& numbers) {
  const auto bytes = std::as_bytes(std::span<const T>(numbers));
  return {bytes.begin(), bytes.end()};
}

// The configuration as transformers 4.57 saves it (BitsAndBytesConfig.to_dict()). The skipped
// modules are looked for as a whole last name and as a part of the name that a dot ends.
struct BitsAndBytes {
  bool is_4_bit = false;
  std::string quant_type = "fp4";  // the default
  bool double_quant = false;
};
std::string bitsandbytes_config(const BitsAndBytes& values, const ConfigSubject& subject) {
  const std::string_view compute = values.is_4_bit ? torch_name(subject.dtype) : "float32";
  return ConfigText()
      .add_bool("_load_in_4bit", values.is_4_bit)
      .add_bool("_load_in_8bit", !values.is_4_bit)
      .add_text("bnb_4bit_compute_dtype", compute)
      .add_text("bnb_4bit_quant_storage", "uint8")
      .add_text("bnb_4bit_quant_type", values.quant_type)
      .add_bool("bnb_4bit_use_double_quant", values.double_quant)
      .add_bool("llm_int8_enable_fp32_cpu_offload", false)
      .add_bool("llm_int8_has_fp16_weight", false)
      .add_list("llm_int8_skip_modules", subject.kept_parts)
      .add("llm_int8_threshold", "6.0")
      .add_bool("load_in_4bit", values.is_4_bit)
      .add_bool("load_in_8bit", !values.is_4_bit)
      .add_text("quant_method", "bitsandbytes")
      .text();
}

class BlockFormat final : public Format {
 public:
  BlockFormat(BlockTable table, const FormatOptions& options)
      : table_(table), double_quant_(options.double_quant) {}

  std::optional<std::string> obstacle(const MatrixPlan& /*matrix*/) const override {
    return std::nullopt;
  }
  std::vector<PlannedTensor> parts(const MatrixPlan& matrix) const override;
  std::optional<weights::StoredCodes> codes(const MatrixPlan& matrix) const override;
  std::vector<Bytes> encode(ThreadPool& pool, ConstView matrix) const override;
  std::string config(const ConfigSubject& subject) const override {
    return bitsandbytes_config(
        {.is_4_bit = true, .quant_type = quant_type(), .double_quant = double_quant_}, subject);
  }

 private:
  std::string quant_type() const { return table_ == BlockTable::kNf4 ? "nf4" : "fp4"; }
  std::string state(const Shape& shape, DType dtype, float offset) const;
  std::size_t state_length(const Shape& shape, DType dtype) const;

  BlockTable table_;
  bool double_quant_;
};

std::string BlockFormat::state(const Shape& shape, DType dtype, float offset) const {
  std::string text = R"({"quant_type": ")" + quant_type() + R"(", "blocksize": )" +
                     std::to_string(kBlock) + R"(, "dtype": ")" + std::string(torch_name(dtype)) +
                     R"(", "shape": [)" + std::to_string(shape[0]) + ", " +
                     std::to_string(shape[1]) + "]";
  if (!double_quant_) return text + "}";
  return text + R"(, "nested_blocksize": )" + std::to_string(kNestedBlock) +
         R"(, "nested_dtype": "float32", "nested_offset": )" +
         json_number(static_cast<double>(offset)) + "}";
}

std::size_t BlockFormat::state_length(const Shape& shape, DType dtype) const {
  const std::string zero = state(shape, dtype, 0);
  return double_quant_ ? zero.size() + kLongestNumber : zero.size();
}

std::vector<PlannedTensor> BlockFormat::parts(const MatrixPlan& matrix) const {
  const std::string weight = matrix.module + ".weight";
  const std::int64_t count = matrix.shape.num_elements();
  const std::int64_t blocks = divide_up(count, kBlock);
  const auto length = static_cast<std::int64_t>(state_length(matrix.shape, matrix.dtype));
  std::vector<PlannedTensor> parts = {
      plan_tensor(weight, "U8", {divide_up(count, 2), 1}),
      plan_tensor(weight + ".absmax", double_quant_ ? "U8" : "F32", {blocks}),
      plan_tensor(weight + ".quant_map", "F32", {16}),
      plan_tensor(weight + ".quant_state.bitsandbytes__" + quant_type(), "U8", {length})};
  if (!double_quant_) return parts;
  parts.push_back(plan_tensor(weight + ".nested_absmax", "F32", {divide_up(blocks, kNestedBlock)}));
  parts.push_back(plan_tensor(weight + ".nested_quant_map", "F32", {256}));
  return parts;
}

// Blocks continue across the ends of rows, so the groups of a row are as wide as the greatest
// common divisor of both.
std::optional<weights::StoredCodes> BlockFormat::codes(const MatrixPlan& matrix) const {
  const std::int64_t columns = matrix.shape[1];
  const std::int64_t group = std::gcd(kBlock, columns);
  const bool is_multiplied =
      columns % 2 == 0 && (group >= weights::kMinGroupColumns || group == columns);
  if (!is_multiplied) return std::nullopt;
  return weights::StoredCodes{
      .method = table_ == BlockTable::kNf4 ? "nf4" : "fp4",
      .format = double_quant_ ? MatrixFormat::kNf4Double : MatrixFormat::kNf4,
      .layout = {.group_columns = group}};
}

std::vector<Bytes> BlockFormat::encode(ThreadPool& pool, ConstView matrix) const {
  const BlockCodes blocks = round_to_blocks(pool, matrix, table_);
  NestedScales nested;
  if (double_quant_) nested = nest_scales(blocks.absmax, mean_of(blocks.absmax));
  std::string text = state(matrix.shape(), matrix.dtype(), nested.offset);
  text.resize(state_length(matrix.shape(), matrix.dtype()), ' ');
  std::vector<Bytes> parts = {
      bytes_of<std::uint8_t>(blocks.codes),
      double_quant_ ? bytes_of<std::uint8_t>(nested.codes) : bytes_of<float>(blocks.absmax),
      bytes_of<float>(table_of(table_)), bytes_of<char>(text)};
  if (!double_quant_) return parts;
  parts.push_back(bytes_of<float>(nested.absmax));
  parts.push_back(bytes_of<float>(weights::dynamic_codebook()));
  return parts;
}

class LlmInt8Format final : public Format {
 public:
  std::optional<std::string> obstacle(const MatrixPlan& /*matrix*/) const override {
    return std::nullopt;
  }
  std::vector<PlannedTensor> parts(const MatrixPlan& matrix) const override {
    return {plan_tensor(matrix.module + ".weight", "I8", {matrix.shape[0], matrix.shape[1]}),
            plan_tensor(matrix.module + ".SCB", "F32", {matrix.shape[0]}),
            plan_tensor(matrix.module + ".weight_format", "U8", {})};
  }
  std::optional<weights::StoredCodes> codes(const MatrixPlan& matrix) const override {
    return weights::StoredCodes{.method = "llm.int8",
                                .format = MatrixFormat::kInt8,
                                .layout = {.is_8_bit = true, .group_columns = matrix.shape[1]}};
  }
  std::vector<Bytes> encode(ThreadPool& pool, ConstView matrix) const override {
    const RoundedMatrix rounded = round_llm_int8(pool, matrix);
    return {bytes_of<std::int8_t>(rounded.codes), bytes_of<float>(rounded.scales), zero_bytes(1)};
  }
  std::string config(const ConfigSubject& subject) const override {
    return bitsandbytes_config({}, subject);
  }
};

}  // namespace

std::unique_ptr<const Format> make_nf4(const FormatOptions& options) {
  return std::make_unique<BlockFormat>(BlockTable::kNf4, options);
}

std::unique_ptr<const Format> make_fp4(const FormatOptions& options) {
  return std::make_unique<BlockFormat>(BlockTable::kFp4, options);
}

std::unique_ptr<const Format> make_llm_int8(const FormatOptions& /*options*/) {
  return std::make_unique<LlmInt8Format>();
}

}  // namespace caption::quantise
