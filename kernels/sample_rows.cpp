#include "kernels/sample_rows.h"

#include <string>

#include "backend/dispatch.h"
#include "base/error.h"
#include "kernels/internal/check.h"
#include "kernels/internal/check_logits.h"

namespace caption::kernels {

void sample_rows(Stream& stream, const SampleRows& input, View tokens) {
  const internal::Check check("sample_rows", stream);
  internal::check_logits(check, input.logits);
  internal::check_rows_of_ids(check, input.rows, {input.logits.dim(0), kRowSamplingBytes},
                              alignof(RowSampling), input.ids);
  check.i32("tokens", tokens, {input.logits.dim(0)});
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
