// GPTQ's layout, version 1: the tensors of lib/weights/gptq_source.cpp.
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

constexpr std::int64_t kGroup = 128;
constexpr std::int64_t kCodesPerWord = 8;
// Eight zeros of 8, of which version 1 stores each less one.
constexpr std::uint32_t kZeros = 0x77777777u;

std::int64_t groups_of(const Shape& shape) { return (shape[1] + kGroup - 1) / kGroup; }

class GptqFormat final : public Format {
 public:
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
    const std::int64_t groups = groups_of(matrix.shape);
    return {plan_tensor(matrix.module + ".qweight", "I32", {columns / kCodesPerWord, rows}),
            plan_tensor(matrix.module + ".qzeros", "I32", {groups, rows / kCodesPerWord}),
            plan_tensor(matrix.module + ".scales", "F16", {groups, rows}),
            plan_tensor(matrix.module + ".g_idx", "I32", {columns})};
  }
  std::vector<Bytes> encode(ThreadPool& pool, ConstView matrix) const override;
  std::string config(const ConfigSubject& subject) const override {
    return ConfigText()
        .add("bits", "4")
        .add_text("block_name_to_quantize", subject.decoder_layers)
        .add_text("checkpoint_format", "gptq")
        .add_bool("desc_act", false)
        .add("group_size", std::to_string(kGroup))
        .add_bool("lm_head", false)
        .add_text("pack_dtype", "int32")
        .add_text("quant_method", "gptq")
        .add_bool("sym", true)
        .text();
  }
};

std::vector<Bytes> GptqFormat::encode(ThreadPool& pool, ConstView matrix) const {
  const RoundedMatrix rounded = round_gptq(pool, matrix, kGroup);
  const std::int64_t rows = rounded.rows;
  const std::int64_t columns = rounded.columns;
  const std::int64_t groups = rounded.groups();
  Bytes codes = zero_bytes(columns * rows / 2);
  Bytes zeros(static_cast<std::size_t>(groups * rows / 2), static_cast<std::byte>(kZeros & 0xFFu));
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
      const float scale = rounded.scales[static_cast<std::size_t>(n * groups + g)];
      elements_of<F16>(scales)[g * rows + n] = to_f16(scale);
    }
  }
  for (std::int64_t k = 0; k < columns; ++k) {
    elements_of<std::int32_t>(group_of)[k] = static_cast<std::int32_t>(k / kGroup);
  }
  return {std::move(codes), std::move(zeros), std::move(scales), std::move(group_of)};
}

}  // namespace

std::unique_ptr<const Format> make_gptq(const FormatOptions& /*options*/) {
  return std::make_unique<GptqFormat>();
}

}  // namespace caption::quantise
