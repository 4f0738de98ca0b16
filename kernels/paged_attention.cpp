#include "kernels/paged_attention.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"
#include "kernels/internal/check_pages.h"

namespace caption::kernels {

void kv_write(Stream& stream, ConstView k, ConstView v, ConstView slots, const KvLayer& pages) {
  const internal::Check check("kv_write", stream);
  internal::check_kv_write(check, k, v, slots, pages);
  dispatch(stream.device(),
           [&](auto device) { impl::kv_write(device, stream, k, v, slots, pages); });
}

void reserve_attention_states(Stream& stream, std::int64_t bytes) {
  if (stream.device().is_cuda()) stream.scratch(static_cast<std::size_t>(bytes));
}

void paged_attention(Stream& stream, ConstView q, const PagedContext& context, float scale,
                     View y) {
  const internal::Check check("paged_attention", stream);
  internal::check_paged_context(check, q, context, scale);
  check.activations("y", y, q.shape());
  dispatch(stream.device(),
           [&](auto device) { impl::paged_attention(device, stream, q, context, scale, y); });
}

}  // namespace caption::kernels
