#include "kernels/compact_kv.h"

#include <string>

#include "backend/dispatch.h"
#include "kernels/internal/attention_limits.h"
#include "kernels/internal/check.h"
#include "kernels/internal/check_pages.h"

namespace caption::kernels {

void compact_kv(Stream& stream, const Compaction& compaction) {
  const internal::Check check("compact_kv", stream);
  const KvLayer& pages = compaction.pages;
  check.rank("k_pages", pages.k, 4);
  internal::check_page_half(check, "k_pages", pages.k, "k_scales", pages.k_scales, pages.k.shape());
  check.same_dtype("v_pages", pages.v, pages.k.shape(), pages.k.dtype());
  internal::check_page_half(check, "v_pages", pages.v, "v_scales", pages.v_scales, pages.k.shape());
  check.rank("kept", compaction.kept, 2);
  check.i32("kept", compaction.kept, {pages.k.dim(2), compaction.kept.dim(1)});
  check.dense("kept", compaction.kept);
  internal::check_attention_limits(check, pages.k.dim(3), 1);
  internal::check_block_table(check, compaction.block_table, pages.k, compaction.num_tokens);
  const std::int64_t num_dropped = compaction.num_tokens - compaction.kept.dim(1);
  if (num_dropped < 0 || compaction.num_summaries < (num_dropped > 0 ? 1 : 0) ||
      compaction.num_summaries > num_dropped) {
    check.fail(std::to_string(compaction.num_summaries) + " summaries of " +
               std::to_string(num_dropped) + " tokens; wanted 1 for each of them at most");
  }
  dispatch(stream.device(), [&](auto device) { impl::compact_kv(device, stream, compaction); });
}

}  // namespace caption::kernels
