#include "kernels/sample_rows.h"

#include <string>

#include "backend/dispatch.h"
#include "base/error.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void sample_rows(Stream& stream, const SampleRows& input, View tokens) {
  const internal::Check check("sample_rows", stream);
  check.rank("logits", input.logits, 2);
  const std::int64_t rows = input.logits.dim(0);
  const std::int64_t vocab = input.logits.dim(1);
  if (vocab < 1 || vocab > kMaxSampledVocab) {
    check.fail("a vocabulary of " + std::to_string(vocab) + "; wanted 1 to " +
               std::to_string(kMaxSampledVocab));
  }
  check.f32("logits", input.logits, input.logits.shape());
  check.same_dtype("rows", input.rows, {rows, kRowSamplingBytes}, DType::kI8);
  check.dense("rows", input.rows);
  if (reinterpret_cast<std::uintptr_t>(input.rows.raw()) % alignof(RowSampling) != 0) {
    check.fail("rows are not aligned to 8 bytes");
  }
  check.rank("ids", input.ids, 1);
  check.i32("ids", input.ids, input.ids.shape());
  check.dense("ids", input.ids);
  check.i32("tokens", tokens, {rows});
  check.dense("tokens", tokens);
  dispatch(stream.device(), [&](auto device) { impl::sample_rows(device, stream, input, tokens); });
}

bool spares_copies_of_logits(const Stream& stream, std::int64_t vocab) {
  return stream.device() != Device::kCpu && vocab <= kMaxSampledVocab;
}

void check_token(std::int32_t token, std::int64_t vocab) {
  if (token >= 0 && token < vocab) return;
  if (token == kNoTokenLeft) {
    throw Error(ErrorCode::kInternal,
                "sampling: every token is ruled out by no_repeat_ngram_size or min_new_tokens");
  }
  const std::int32_t id = (-2 - token) / 2;
  if (token > 0 || id >= vocab) {
    throw Error(ErrorCode::kInternal, "sampling: the device chose " + std::to_string(token) +
                                          " of " + std::to_string(vocab) + " tokens");
  }
  throw Error(ErrorCode::kBadModel,
              "sampling: logit " + std::to_string(id) + " of " + std::to_string(vocab) + " is " +
                  (token == nan_at(id) ? "NaN" : "+inf") + "; the model or its weights are broken");
}

}  // namespace caption::kernels
