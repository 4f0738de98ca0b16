// GPTQ's layout: the tensors of lib/weights/gptq_source.cpp. Symmetric codes are written as version
// 1, which every loader reads. Their zeros are 8; others may be 0, which version 1 has no place
// for, so these are written as version 2.
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

class GptqFormat final : public Format {
 public:
  explicit GptqFormat(const FormatOptions& options)
      : group_(options.group_columns),
        is_symmetric_(options.symmetric),
        has_act_order_(options.act_order) {}

  // The loaders of this layout replace every linear layer of the decoder, so none can be left out.
  std::optional<std::string> obstacle(const MatrixPlan& matrix) const override {
    for (const int axis : {0, 1}) {
      if (matrix.shape[axis] % kCodesPerWord == 0) continue;
      throw Error(ErrorCode::kUnavailable,
                  "tensor " + matrix.module + ".weight has " + std::to_string(matrix.shape[axis]) +
                      (axis == 0 ? " rows" : " columns") +
                      ", no multiple of the 8 codes of a word of gptq; int8 and nf4 hold it");
    }
    return std::nullopt;
  }
  std::vector<PlannedTensor> parts(const MatrixPlan& matrix) const override {
    const std::int64_t rows = matrix.shape[0];
    const std::int64_t columns = matrix.shape[1];
    const std::int64_t groups = (columns + group_ - 1) / group_;
    return {plan_tensor(matrix.module + ".qweight", "I32", {columns / kCodesPerWord, rows}),
            plan_tensor(matrix.module + ".qzeros", "I32", {groups, rows / kCodesPerWord}),
            plan_tensor(matrix.module + ".scales", "F16", {groups, rows}),
            plan_tensor(matrix.module + ".g_idx", "I32", {columns})};
  }
  std::optional<weights::StoredCodes> codes(const MatrixPlan& /*matrix*/) const override {
    return weights::StoredCodes{
        .method = "gptq",
        .format = MatrixFormat::kAwq,
        .layout = {.group_columns = group_,
                   .has_offsets = !is_symmetric_,
                   .has_column_order = has_act_order_,
                   .numbers = {.scales = DType::kF16, .offsets = DType::kI8}}};
  }
  std::vector<Bytes> encode(ThreadPool& pool, ConstView matrix) const override {
    return pack(pool, round_gptq(pool, matrix, group_, is_symmetric_));
  }
  std::vector<Bytes> pack(ThreadPool& pool, const RoundedMatrix& rounded) const override;
  std::string config(const ConfigSubject& subject) const override {
    return ConfigText()
        .add("bits", "4")
        .add_text("block_name_to_quantize", subject.decoder_layers)
        .add_text("checkpoint_format", is_symmetric_ ? "gptq" : "gptq_v2")
        .add_bool("desc_act", has_act_order_)
        .add("group_size", std::to_string(group_))
        .add_bool("lm_head", false)
        .add_text("pack_dtype", "int32")
        .add_text("quant_method", "gptq")
        .add_bool("sym", is_symmetric_)
        .text();
  }

 private:
  std::int64_t group_;
  bool is_symmetric_;
  bool has_act_order_;
};

std::vector<Bytes> GptqFormat::pack(ThreadPool& pool, const RoundedMatrix& rounded) const {
  CAPTION_CHECK(rounded.group_columns == group_ && rounded.zeros.size() == rounded.scales.size() &&
                    (has_act_order_ || rounded.group_of.empty()),
                "quantise: codes in other groups than those of gptq");
  const std::int64_t rows = rounded.rows;
  const std::int64_t columns = rounded.columns;
  const std::int64_t groups = rounded.groups();
  const std::uint32_t stored_less = is_symmetric_ ? 1 : 0;
  Bytes codes = zero_bytes(columns * rows / 2);
  Bytes zeros = zero_bytes(groups * rows / 2);
  Bytes scales = zero_bytes(groups * rows * 2);
  Bytes group_of = zero_bytes(columns * 4);
  auto* const code_words = elements_of<std::uint32_t>(codes);
  pool.parallel_for(rows, row_grain(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int8_t* const row = rounded.codes.data() + n * columns;
      for (std::int64_t k = 0; k < columns; ++k) {
        code_words[k / kCodesPerWord * rows + n] |= static_cast<std::uint32_t>(row[k])
                                                    << (4 * (k % kCodesPerWord));
      }
    }
  });
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto at = static_cast<std::size_t>(n * groups + g);
      elements_of<F16>(scales)[g * rows + n] = to_f16(rounded.scales[at]);
      elements_of<std::uint32_t>(zeros)[(g * rows + n) / kCodesPerWord] |=
          (rounded.zeros[at] - stored_less) << (4 * (n % kCodesPerWord));
    }
  }
  for (std::int64_t k = 0; k < columns; ++k) {
    elements_of<std::int32_t>(group_of)[k] = rounded.group_of.empty()
                                                 ? static_cast<std::int32_t>(k / group_)
                                                 : rounded.group_of[static_cast<std::size_t>(k)];
  }
  return {std::move(codes), std::move(zeros), std::move(scales), std::move(group_of)};
}

}  // namespace

std::unique_ptr<const Format> make_gptq(const FormatOptions& options) {
  return std::make_unique<GptqFormat>(options);
}

}  // namespace caption::quantise
