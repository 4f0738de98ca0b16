#include "kernels/internal/check_pages.h"

#include <iterator>
#include <string>

#include "kernels/internal/attention_limits.h"

namespace caption::kernels::internal {
namespace {

void check_clusters(const Check& check, const PagedContext& context, std::int64_t num_seqs,
                    std::int64_t kv_heads, std::int64_t head_dim) {
  if (context.clusters.empty()) return;
  if (std::ssize(context.clusters) != num_seqs) {
    check.fail("clusters of " + std::to_string(context.clusters.size()) + " sequences; wanted " +
               std::to_string(num_seqs));
  }
  for (const KeyClusters* const clusters : context.clusters) {
    if (clusters == nullptr) continue;
    if (context.window > 0) check.fail("key clusters and a window cannot be combined");
    check.rank("centroids", clusters->centroids, 3);
    check.rank("cluster_of", clusters->cluster_of, 2);
    const std::int64_t count = clusters->centroids.dim(1);
    check.f32("centroids", clusters->centroids, {kv_heads, count, head_dim});
    check.i32("sizes", clusters->sizes, {kv_heads, count});
    check.i32("cluster_of", clusters->cluster_of, {kv_heads, clusters->cluster_of.dim(1)});
    check.dense("centroids", clusters->centroids);
    check.dense("sizes", clusters->sizes);
    check.dense("cluster_of", clusters->cluster_of);
    if (count < 1 || count > kMaxKeyClusters) {
      check.fail(std::to_string(count) + " clusters; wanted 1 to " +
                 std::to_string(kMaxKeyClusters));
    }
  }
}

}  // namespace

void check_page_half(const Check& check, std::string_view name, ConstView pages,
                     std::string_view scales_name, ConstView scales, const Shape& shape) {
  check.page_elements(name, pages, shape);
  check.dense(name, pages);
  if (pages.dtype() != DType::kI8) {
    if (!scales.empty()) check.fail("only pages of i8 have scales");
    return;
  }
  check.same_dtype(scales_name, scales, {shape[0], shape[1], shape[2]}, DType::kBF16);
  check.dense(scales_name, scales);
}

void check_kv_write(const Check& check, ConstView k, ConstView v, ConstView slots,
                    const KvLayer& pages) {
  check.rank("k", k, 3);
  check.rank("k_pages", pages.k, 4);
  check.f32("k", k, k.shape());
  check.f32("v", v, k.shape());
  check.i32("slots", slots, {k.dim(0)});
  check.dense("slots", slots);
  const Shape shape{pages.k.dim(0), pages.k.dim(1), k.dim(1), k.dim(2)};
  check_page_half(check, "k_pages", pages.k, "k_scales", pages.k_scales, shape);
  check.same_dtype("v_pages", pages.v, shape, pages.k.dtype());
  check_page_half(check, "v_pages", pages.v, "v_scales", pages.v_scales, shape);
}

void check_paged_context(const Check& check, ConstView q, const PagedContext& context,
                         float scale) {
  check.rank("q", q, 3);
  check.rank("k_pages", context.k_pages, 4);
  check.rank("context_lens", context.context_lens, 1);
  check.rank("block_tables", context.block_tables, 2);
  check.f32("q", q, q.shape());
  const std::int64_t kv_heads = context.k_pages.dim(2);
  const Shape pages{context.k_pages.dim(0), context.k_pages.dim(1), kv_heads, q.dim(2)};
  check_page_half(check, "k_pages", context.k_pages, "k_scales", context.k_scales, pages);
  check.same_dtype("v_pages", context.v_pages, pages, context.k_pages.dtype());
  check_page_half(check, "v_pages", context.v_pages, "v_scales", context.v_scales, pages);
  if (kv_heads == 0 || q.dim(1) % kv_heads != 0)
    check.fail(std::to_string(q.dim(1)) + " query heads cannot share " + std::to_string(kv_heads) +
               " key heads evenly");
  if (context.k_pages.dim(1) == 0) check.fail("a page holds no token");
  check_attention_limits(check, q.dim(2), scale);
  if (context.window < 0) check.fail("window is " + std::to_string(context.window));
  const std::int64_t num_seqs = context.context_lens.dim(0);
  check.i32("context_lens", context.context_lens, {num_seqs});
  check.dense("context_lens", context.context_lens);
  check.i32("cu_seqlens", context.cu_seqlens, {num_seqs + 1});
  check.dense("cu_seqlens", context.cu_seqlens);
  check.i32("block_tables", context.block_tables, {num_seqs, context.block_tables.dim(1)});
  check_clusters(check, context, num_seqs, kv_heads, q.dim(2));
}

void check_block_table(const Check& check, ConstView block_table, ConstView k_pages,
                       std::int64_t num_tokens) {
  check.rank("block_table", block_table, 1);
  check.i32("block_table", block_table, block_table.shape());
  check.dense("block_table", block_table);
  const std::int64_t page_tokens = k_pages.dim(1);
  if (page_tokens == 0) check.fail("a page holds no token");
  const std::int64_t num_pages = (num_tokens + page_tokens - 1) / page_tokens;
  if (num_tokens < 1 || num_pages > block_table.dim(0)) {
    check.fail(std::to_string(num_tokens) + " tokens do not fit " +
               std::to_string(block_table.dim(0)) + " pages");
  }
}

}  // namespace caption::kernels::internal
