// compressed-tensors: the tensors of lib/weights/compressed_tensors_source.cpp, as llm-compressor
// saves them. Scales have the dtype of the weights that were rounded.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "quantise/format.h"
#include "quantise/internal/config_json.h"
#include "quantise/internal/numbers.h"
#include "quantise/rounding.h"

namespace caption::quantise {
namespace {

using weights::plan_tensor;
using weights::PlannedTensor;

constexpr std::int64_t kGroup = 128;
constexpr std::int64_t kCodesPerWord = 8;

// The library looks for a regular expression from the beginning of a module's name.
std::vector<std::string> ignored(const ConfigSubject& subject) {
  std::vector<std::string> expressions;
  for (const std::string& part : subject.kept_parts) expressions.push_back("re:.*" + part + ".*");
  for (const std::string& matrix : subject.kept_matrices) {
    std::string expression = "re:.*";
    for (const char letter : matrix) {
      expression += letter == '.' ? "[.]" : std::string(1, letter);
    }
    expressions.push_back(expression + "$");
  }
  return expressions;
}

std::string compressed_config(const char* format, const std::string& scheme,
                              const ConfigSubject& subject) {
  return ConfigText()
      .add("config_groups", R"({"group_0": {"targets": ["Linear"], )" + scheme + "}}")
      .add_text("format", format)
      .add_list("ignore", ignored(subject))
      .add("kv_cache_scheme", "null")
      .add_text("quant_method", "compressed-tensors")
      .add_text("quantization_status", "compressed")
      .text();
}

Bytes scale_bytes(const std::vector<float>& scales, DType dtype) {
  Bytes bytes = zero_bytes(std::ssize(scales) * static_cast<std::int64_t>(dtype_size_bytes(dtype)));
  dispatch_float(dtype, [&](auto tag) {
    auto* const to = elements_of<decltype(tag)>(bytes);
    for (std::size_t i = 0; i < scales.size(); ++i) to[i] = from_float<decltype(tag)>(scales[i]);
  });
  return bytes;
}

class RowFormat final : public Format {
 public:
  std::optional<std::string> obstacle(const MatrixPlan& /*matrix*/) const override {
    return std::nullopt;
  }
  std::vector<PlannedTensor> parts(const MatrixPlan& matrix) const override {
    const std::string dtype(file_name(matrix.dtype));
    return {plan_tensor(matrix.module + ".weight", "I8", {matrix.shape[0], matrix.shape[1]}),
            plan_tensor(matrix.module + ".weight_scale", dtype, {matrix.shape[0], 1})};
  }
  std::optional<weights::StoredCodes> codes(const MatrixPlan& matrix) const override {
    return weights::StoredCodes{.method = "compressed-tensors",
                                .format = MatrixFormat::kInt8Row,
                                .layout = {.is_8_bit = true,
                                           .group_columns = matrix.shape[1],
                                           .numbers = {.scales = matrix.dtype}},
                                .rounds_activations = true};
  }
  std::vector<Bytes> encode(ThreadPool& pool, ConstView matrix) const override {
    const RoundedMatrix rounded = round_symmetric(pool, matrix, 8, 0);
    const auto codes = std::as_bytes(std::span(rounded.codes));
    return {Bytes(codes.begin(), codes.end()), scale_bytes(rounded.scales, matrix.dtype())};
  }
  std::string config(const ConfigSubject& subject) const override {
    return compressed_config(
        "int-quantized",
        R"("weights": {"num_bits": 8, "type": "int", "symmetric": true, "strategy": "channel", )"
        R"("group_size": null, "dynamic": false, "observer": "minmax"}, )"
        R"("input_activations": {"num_bits": 8, "type": "int", "symmetric": true, )"
        R"("strategy": "token", "group_size": null, "dynamic": true}, "output_activations": null)",
        subject);
  }
};

class PackedFormat final : public Format {
 public:
  explicit PackedFormat(std::int64_t group_columns) : group_(group_columns) {}

  std::optional<std::string> obstacle(const MatrixPlan& matrix) const override {
    if (matrix.shape[1] % group_ == 0) return std::nullopt;
    return "groups of " + std::to_string(group_) + " do not divide its " +
           std::to_string(matrix.shape[1]) + " columns";
  }
  std::vector<PlannedTensor> parts(const MatrixPlan& matrix) const override {
    const std::int64_t rows = matrix.shape[0];
    const std::int64_t columns = matrix.shape[1];
    const std::string dtype(file_name(matrix.dtype));
    return {plan_tensor(matrix.module + ".weight_packed", "I32", {rows, columns / kCodesPerWord}),
            plan_tensor(matrix.module + ".weight_scale", dtype, {rows, columns / group_}),
            plan_tensor(matrix.module + ".weight_shape", "I64", {2})};
  }
  std::optional<weights::StoredCodes> codes(const MatrixPlan& matrix) const override {
    return weights::StoredCodes{
        .method = "compressed-tensors",
        .format = MatrixFormat::kInt4,
        .layout = {.group_columns = group_, .numbers = {.scales = matrix.dtype}}};
  }
  std::vector<Bytes> encode(ThreadPool& pool, ConstView matrix) const override;
  std::string config(const ConfigSubject& subject) const override {
    return compressed_config(
        "pack-quantized",
        R"("weights": {"num_bits": 4, "type": "int", "symmetric": true, "strategy": "group", )"
        R"("group_size": )" +
            std::to_string(group_) +
            R"(, "dynamic": false, "observer": "minmax"}, )"
            R"("input_activations": null, "output_activations": null)",
        subject);
  }

 private:
  std::int64_t group_;
};

std::vector<Bytes> PackedFormat::encode(ThreadPool& pool, ConstView matrix) const {
  const RoundedMatrix rounded = round_symmetric(pool, matrix, 4, group_);
  // Rows are a whole number of words, so the words of all rows follow one another.
  const std::int64_t words = rounded.rows * rounded.columns / kCodesPerWord;
  Bytes packed = zero_bytes(words * 4);
  auto* const to = elements_of<std::uint32_t>(packed);
  for (std::int64_t w = 0; w < words; ++w) {
    const std::int8_t* const codes = rounded.codes.data() + w * kCodesPerWord;
    std::uint32_t word = 0;
    for (unsigned i = 0; i < kCodesPerWord; ++i) {
      word |= static_cast<std::uint32_t>(codes[i] + 8) << (4 * i);
    }
    to[w] = word;
  }
  Bytes shape = zero_bytes(16);
  elements_of<std::int64_t>(shape)[0] = rounded.rows;
  elements_of<std::int64_t>(shape)[1] = rounded.columns;
  return {std::move(packed), scale_bytes(rounded.scales, matrix.dtype()), std::move(shape)};
}

}  // namespace

std::unique_ptr<const Format> make_w8a8(const FormatOptions& /*options*/) {
  return std::make_unique<RowFormat>();
}

std::unique_ptr<const Format> make_w4a16(const FormatOptions& options) {
  return std::make_unique<PackedFormat>(options.group_columns);
}

}  // namespace caption::quantise
