#include "kernels/paged_attention.h"

#include "backend/dispatch.h"
#include "kernels/internal/check.h"
#include "kernels/internal/check_pages.h"

namespace caption::kernels {

void kv_write(Stream& stream, ConstView k, ConstView v, ConstView slots, const KvLayer& pages) {
  const internal::Check check("kv_write", stream);
  check.rank("k", k, 3);
  check.rank("k_pages", pages.k, 4);
  check.f32("k", k, k.shape());
  check.f32("v", v, k.shape());
  check.i32("slots", slots, {k.dim(0)});
  check.dense("slots", slots);
  const Shape shape{pages.k.dim(0), pages.k.dim(1), k.dim(1), k.dim(2)};
  internal::check_page_half(check, "k_pages", pages.k, "k_scales", pages.k_scales, shape);
  check.same_dtype("v_pages", pages.v, shape, pages.k.dtype());
  internal::check_page_half(check, "v_pages", pages.v, "v_scales", pages.v_scales, shape);
  dispatch(stream.device(),
           [&](auto device) { impl::kv_write(device, stream, k, v, slots, pages); });
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
