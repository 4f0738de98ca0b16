// AWQ's layout "gemm": the tensors of lib/weights/awq_source.cpp.
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "quantise/format.h"
#include "quantise/internal/config_json.h"
#include "quantise/internal/numbers.h"
#include "quantise/rounding.h"

namespace caption::quantise {
namespace {

using weights::plan_tensor;
using weights::PlannedTensor;

constexpr std::int64_t kCodesPerWord = 8;
// Nibble of a word that holds row n % 8.
constexpr std::array<unsigned, 8> kNibble = {0, 4, 1, 5, 2, 6, 3, 7};

std::uint32_t placed(std::uint32_t code, std::int64_t row) {
  return code << (4 * kNibble[static_cast<std::size_t>(row % kCodesPerWord)]);
}

class AwqFormat final : public Format {
 public:
  explicit AwqFormat(std::int64_t group_columns) : group_(group_columns) {}

  std::optional<std::string> obstacle(const MatrixPlan& matrix) const override {
    if (matrix.shape[1] % group_ != 0) {
      return "groups of " + std::to_string(group_) + " do not divide its " +
             std::to_string(matrix.shape[1]) + " columns";
    }
    if (matrix.shape[0] % kCodesPerWord == 0) return std::nullopt;
    return "its " + std::to_string(matrix.shape[0]) + " rows are no multiple of 8";
  }
  std::vector<PlannedTensor> parts(const MatrixPlan& matrix) const override {
    const std::int64_t rows = matrix.shape[0];
    const std::int64_t columns = matrix.shape[1];
    const std::int64_t groups = columns / group_;
    return {plan_tensor(matrix.module + ".qweight", "I32", {columns, rows / kCodesPerWord}),
            plan_tensor(matrix.module + ".qzeros", "I32", {groups, rows / kCodesPerWord}),
            plan_tensor(matrix.module + ".scales", "F16", {groups, rows})};
  }
  std::optional<weights::StoredCodes> codes(const MatrixPlan& /*matrix*/) const override {
    return weights::StoredCodes{
        .method = "awq",
        .format = MatrixFormat::kAwq,
        .layout = {.group_columns = group_,
                   .has_offsets = true,
                   .numbers = {.scales = DType::kF16, .offsets = DType::kI8}}};
  }
  std::vector<Bytes> encode(ThreadPool& pool, ConstView matrix) const override {
    return pack(pool, round_awq(pool, matrix, group_));
  }
  std::vector<Bytes> pack(ThreadPool& pool, const RoundedMatrix& rounded) const override;
  std::string config(const ConfigSubject& subject) const override {
    return ConfigText()
        .add("bits", "4")
        .add("group_size", std::to_string(group_))
        .add_list("modules_to_not_convert", kept_names(subject))
        .add_text("quant_method", "awq")
        .add_text("version", "gemm")
        .add_bool("zero_point", true)
        .text();
  }

 private:
  std::int64_t group_;
};

std::vector<Bytes> AwqFormat::pack(ThreadPool& pool, const RoundedMatrix& rounded) const {
  CAPTION_CHECK(rounded.group_columns == group_ && rounded.group_of.empty() &&
                    rounded.zeros.size() == rounded.scales.size(),
                "quantise: codes in other groups than those of awq");
  const std::int64_t rows = rounded.rows;
  const std::int64_t columns = rounded.columns;
  const std::int64_t groups = rounded.groups();
  const std::int64_t words = rows / kCodesPerWord;
  Bytes codes = zero_bytes(columns * words * 4);
  Bytes zeros = zero_bytes(groups * words * 4);
  Bytes scales = zero_bytes(groups * rows * 2);
  auto* const code_words = elements_of<std::uint32_t>(codes);
  pool.parallel_for(words, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin * kCodesPerWord; n < end * kCodesPerWord; ++n) {
      const std::int8_t* const row = rounded.codes.data() + n * columns;
      std::uint32_t* const to = code_words + n / kCodesPerWord;
      for (std::int64_t k = 0; k < columns; ++k) {
        to[k * words] |= placed(static_cast<std::uint8_t>(row[k]), n);
      }
    }
  });
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto at = static_cast<std::size_t>(n * groups + g);
      elements_of<std::uint32_t>(zeros)[g * words + n / kCodesPerWord] |=
          placed(rounded.zeros[at], n);
      elements_of<F16>(scales)[g * rows + n] = to_f16(rounded.scales[at]);
    }
  }
  return {std::move(codes), std::move(zeros), std::move(scales)};
}

}  // namespace

std::unique_ptr<const Format> make_awq(const FormatOptions& options) {
  return std::make_unique<AwqFormat>(options.group_columns);
}

}  // namespace caption::quantise
