#include "kernels/paged_attention.h"

#include "backend/dispatch.h"
#include "kernels/internal/attention_limits.h"
#include "kernels/internal/check.h"

namespace caption::kernels {
namespace {

// Pages of one layer: K and V alike, scales where the dtype has them and only there.
void check_pages(const internal::Check& check, ConstView k, ConstView v, ConstView k_scales,
                 ConstView v_scales, const Shape& pages) {
  check.page_elements("k_pages", k, pages);
  check.same_dtype("v_pages", v, pages, k.dtype());
  check.dense("k_pages", k);
  check.dense("v_pages", v);
  if (k.dtype() != DType::kI8) {
    if (!k_scales.empty() || !v_scales.empty()) check.fail("only pages of i8 have scales");
    return;
  }
  const Shape scales{pages[0], pages[1], pages[2]};
  check.same_dtype("k_scales", k_scales, scales, DType::kBF16);
  check.same_dtype("v_scales", v_scales, scales, DType::kBF16);
  check.dense("k_scales", k_scales);
  check.dense("v_scales", v_scales);
}

}  // namespace

void kv_write(Stream& stream, ConstView k, ConstView v, ConstView slots, const KvLayer& pages) {
  const internal::Check check("kv_write", stream);
  check.rank("k", k, 3);
  check.rank("k_pages", pages.k, 4);
  check.f32("k", k, k.shape());
  check.f32("v", v, k.shape());
  check.i32("slots", slots, {k.dim(0)});
  check.dense("slots", slots);
  check_pages(check, pages.k, pages.v, pages.k_scales, pages.v_scales,
              {pages.k.dim(0), pages.k.dim(1), k.dim(1), k.dim(2)});
  dispatch(stream.device(),
           [&](auto device) { impl::kv_write(device, stream, k, v, slots, pages); });
}

void paged_attention(Stream& stream, ConstView q, const PagedContext& context, float scale,
                     View y) {
  const internal::Check check("paged_attention", stream);
  check.rank("q", q, 3);
  check.rank("k_pages", context.k_pages, 4);
  check.rank("context_lens", context.context_lens, 1);
  check.rank("block_tables", context.block_tables, 2);
  check.f32("q", q, q.shape());
  check.f32("y", y, q.shape());
  const std::int64_t kv_heads = context.k_pages.dim(2);
  check_pages(check, context.k_pages, context.v_pages, context.k_scales, context.v_scales,
              {context.k_pages.dim(0), context.k_pages.dim(1), kv_heads, q.dim(2)});
  if (kv_heads == 0 || q.dim(1) % kv_heads != 0)
    check.fail(std::to_string(q.dim(1)) + " query heads cannot share " + std::to_string(kv_heads) +
               " key heads evenly");
  if (context.k_pages.dim(1) == 0) check.fail("a page holds no token");
  internal::check_attention_limits(check, q.dim(2), scale);
  const std::int64_t num_seqs = context.context_lens.dim(0);
  check.i32("context_lens", context.context_lens, {num_seqs});
  check.dense("context_lens", context.context_lens);
  check.i32("cu_seqlens", context.cu_seqlens, {num_seqs + 1});
  check.dense("cu_seqlens", context.cu_seqlens);
  check.i32("block_tables", context.block_tables, {num_seqs, context.block_tables.dim(1)});
  dispatch(stream.device(),
           [&](auto device) { impl::paged_attention(device, stream, q, context, scale, y); });
}

}  // namespace caption::kernels
