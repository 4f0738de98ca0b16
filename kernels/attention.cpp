#include "kernels/attention.h"

#include "backend/dispatch.h"
#include "kernels/internal/attention_limits.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void attention(Stream& stream, const AttentionInput& input, View y) {
  const internal::Check check("attention", stream);
  check.rank("q", input.q, 3);
  check.f32("q", input.q, input.q.shape());
  check.floating("k", input.k, input.q.shape());
  check.same_dtype("v", input.v, input.q.shape(), input.k.dtype());
  check.activations("y", y, input.q.shape());
  internal::check_attention_limits(check, input.q.dim(2), input.scale);
  if (input.seq_len < 1 || input.q.dim(0) % input.seq_len != 0)
    check.fail(std::to_string(input.q.dim(0)) + " rows are not whole sequences of " +
               std::to_string(input.seq_len));
  dispatch(stream.device(), [&](auto device) { impl::attention(device, stream, input, y); });
}

}  // namespace caption::kernels
