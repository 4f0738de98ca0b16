#include "kernels/cpu/paged_keys.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/math.h"
#include "kernels/cpu/select_tier.h"
#include "tensor/dtype.h"

namespace caption::kernels::cpu {
namespace {

Keys make_keys(ConstView k, ConstView v, std::int64_t kv_head) {
  const auto element_bytes = static_cast<std::int64_t>(dtype_size_bytes(k.dtype()));
  const std::int64_t head_bytes = kv_head * k.dim(3) * element_bytes;
  const std::int64_t token_stride = k.dim(2) * k.dim(3);
  return {.k = static_cast<const std::byte*>(k.raw()) + head_bytes,
          .v = static_cast<const std::byte*>(v.raw()) + head_bytes,
          .element = element_of(k.dtype()),
          .element_bytes = element_bytes,
          .token_stride = token_stride,
          .run_tokens = k.dim(1),
          .run_stride = k.dim(1) * token_stride};
}

void add_scales(ConstView k_scales, ConstView v_scales, std::int64_t kv_head, Keys& keys) {
  if (keys.element != Element::kI8) return;
  keys.k_scales = k_scales.as<BF16>() + kv_head;
  keys.v_scales = v_scales.as<BF16>() + kv_head;
  keys.scale_stride = k_scales.dim(2);
}

void check_clusters(const std::string& name, const PagedContext& context, std::int64_t sequence,
                    std::int64_t num_before) {
  if (context.clusters.empty()) return;
  const KeyClusters* const clusters = context.clusters[static_cast<std::size_t>(sequence)];
  if (clusters == nullptr) return;
  const std::int64_t end = clusters->first_token + clusters->cluster_of.dim(1);
  CAPTION_CHECK(clusters->first_token >= 0 && end <= num_before,
                name + ": clusters of tokens up to " + std::to_string(end) +
                    " where the first query stands at " + std::to_string(num_before));
}

}  // namespace

void check_context(std::string_view op, const PagedContext& context, std::int64_t num_rows) {
  const std::string name(op);
  const std::int64_t num_seqs = context.context_lens.dim(0);
  const std::int64_t num_pages = context.k_pages.dim(0);
  const std::int64_t page_tokens = context.k_pages.dim(1);
  const std::int32_t* const begin = context.cu_seqlens.as<std::int32_t>();
  const std::int32_t* const length = context.context_lens.as<std::int32_t>();
  CAPTION_CHECK(begin[0] == 0 && begin[num_seqs] == num_rows,
                name + ": cu_seqlens runs from " + std::to_string(begin[0]) + " to " +
                    std::to_string(begin[num_seqs]) + "; wanted 0 to " + std::to_string(num_rows));
  for (std::int64_t s = 0; s < num_seqs; ++s) {
    CAPTION_CHECK(begin[s] <= begin[s + 1], name + ": cu_seqlens descends");
    CAPTION_CHECK(length[s] >= begin[s + 1] - begin[s],
                  name + ": a context of " + std::to_string(length[s]) +
                      " tokens is shorter than its " + std::to_string(begin[s + 1] - begin[s]) +
                      " query rows");
    check_clusters(name, context, s, length[s] - (begin[s + 1] - begin[s]));
    const std::int64_t pages = (length[s] + page_tokens - 1) / page_tokens;
    CAPTION_CHECK(pages <= context.block_tables.dim(1),
                  name + ": a context of " + std::to_string(length[s]) +
                      " tokens needs more pages than its block table has");
    const std::int32_t* const table =
        context.block_tables.as<std::int32_t>() + s * context.block_tables.row_stride();
    const std::int64_t first_row = length[s] - (begin[s + 1] - begin[s]);
    const std::int64_t first_key =
        context.window == 0 ? 0 : std::max<std::int64_t>(first_row - context.window + 1, 0);
    for (std::int64_t i = first_key / page_tokens; i < pages; ++i) {
      CAPTION_CHECK(table[i] >= 0 && table[i] < num_pages,
                    name + ": page " + std::to_string(table[i]) + " is not one of " +
                        std::to_string(num_pages));
    }
  }
}

void check_page_ids(std::string_view op, ConstView block_table, ConstView k_pages,
                    std::int64_t num_tokens) {
  const std::int32_t* const pages = block_table.as<std::int32_t>();
  for (std::int64_t i = 0; i < divide_up(num_tokens, k_pages.dim(1)); ++i) {
    CAPTION_CHECK(pages[i] >= 0 && pages[i] < k_pages.dim(0),
                  std::string(op) + ": page " + std::to_string(pages[i]) + " is not one of " +
                      std::to_string(k_pages.dim(0)));
  }
}

Keys paged_keys(const PagedContext& context, std::int64_t sequence, std::int64_t kv_head) {
  Keys keys = make_keys(context.k_pages, context.v_pages, kv_head);
  add_scales(context.k_scales, context.v_scales, kv_head, keys);
  keys.pages =
      context.block_tables.as<std::int32_t>() + sequence * context.block_tables.row_stride();
  return keys;
}

}  // namespace caption::kernels::cpu
