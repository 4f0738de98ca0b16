#include "kernels/attention.h"

#include "backend/dispatch.h"
#include "kernels/internal/attention_limits.h"
#include "kernels/internal/check.h"

namespace caption::kernels {

void attention(Stream& stream, const AttentionInput& input, View y) {
  const internal::Check check("attention", stream);
  check.rank("q", input.q, 3);
  check.f32("q", input.q, input.q.shape());
  check.rank("k", input.k, 3);
  check.activations("y", y, input.q.shape());
  internal::check_attention_limits(check, input.q.dim(2), input.scale);
  if (input.seq_len < 1 || input.q.dim(0) % input.seq_len != 0)
    check.fail(std::to_string(input.q.dim(0)) + " rows are not whole sequences of " +
               std::to_string(input.seq_len));
  const std::int64_t kv_len = input.kv_len == 0 ? input.seq_len : input.kv_len;
  const std::int64_t kv_heads = input.k.dim(1);
  if (kv_len < 1 || kv_heads < 1 || input.q.dim(1) % kv_heads != 0)
    check.fail(std::to_string(kv_len) + " keys with " + std::to_string(kv_heads) +
               " heads for queries with " + std::to_string(input.q.dim(1)));
  const Shape keys = {input.q.dim(0) / input.seq_len * kv_len, kv_heads, input.q.dim(2)};
  check.floating("k", input.k, keys);
  check.same_dtype("v", input.v, keys, input.k.dtype());
  dispatch(stream.device(), [&](auto device) { impl::attention(device, stream, input, y); });
}

}  // namespace caption::kernels
