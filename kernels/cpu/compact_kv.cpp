#include "kernels/compact_kv.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/paged_keys.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectors.h"

namespace caption::kernels::impl {
namespace {

// Maps the tokens of one sequence and key head to the indices of their vectors in K and in V.
struct Head {
  const std::int32_t* table;
  std::int64_t page_tokens;
  std::int64_t kv_heads;
  std::int64_t kv_head;

  std::int64_t at(std::int64_t position) const {
    const std::int64_t slot = table[position / page_tokens] * page_tokens + position % page_tokens;
    return slot * kv_heads + kv_head;
  }
};

// Returns the means of the runs of `dropped` tokens, [num_summaries, head_dim].
std::vector<float> average_runs(ConstView pages, ConstView scales, const Head& head,
                                const std::vector<std::int64_t>& dropped,
                                std::int64_t num_summaries) {
  const std::int64_t head_dim = pages.dim(3);
  std::vector<float> means(static_cast<std::size_t>(num_summaries * head_dim), 0.0F);
  std::vector<float> vector(static_cast<std::size_t>(head_dim));
  const std::int64_t count = std::ssize(dropped);
  auto next = dropped.begin();
  for (std::int64_t i = 0; i < num_summaries; ++i) {
    const std::int64_t length = count / num_summaries + (i < count % num_summaries ? 1 : 0);
    float* const mean = means.data() + i * head_dim;
    for (std::int64_t j = 0; j < length; ++j, ++next) {
      cpu::read_vector(pages, scales, head.at(*next), vector.data());
      for (std::int64_t d = 0; d < head_dim; ++d) mean[d] += vector[static_cast<std::size_t>(d)];
    }
    for (std::int64_t d = 0; d < head_dim; ++d) mean[d] /= static_cast<float>(length);
  }
  return means;
}

// The means are computed before anything is written. kept[i] >= i, so moving in ascending order
// overwrites no vector that is still needed.
void compact_half(View pages, View scales, const Head& head, std::span<const std::int32_t> kept,
                  const std::vector<std::int64_t>& dropped, std::int64_t num_summaries) {
  const std::vector<float> means = average_runs(pages, scales, head, dropped, num_summaries);
  std::int64_t next = 0;
  for (const std::int32_t position : kept) {
    cpu::move_vector(pages, scales, head.at(position), head.at(next++));
  }
  for (std::int64_t i = 0; i < num_summaries; ++i) {
    cpu::write_vector(pages, scales, head.at(next++), means.data() + i * pages.dim(3));
  }
}

void check_kept(std::span<const std::int32_t> kept, std::int64_t num_tokens) {
  std::int64_t lowest = 0;
  for (const std::int32_t position : kept) {
    CAPTION_CHECK(position >= lowest && position < num_tokens,
                  "compact_kv: kept position " + std::to_string(position) +
                      " is not above the last, or not one of " + std::to_string(num_tokens));
    lowest = position + 1;
  }
}

}  // namespace

void compact_kv(Cpu, Stream& stream, const Compaction& compaction) {
  const KvLayer& pages = compaction.pages;
  const std::int64_t kv_heads = pages.k.dim(2);
  cpu::check_page_ids("compact_kv", compaction.block_table, pages.k, compaction.num_tokens);
  const auto num_kept = static_cast<std::size_t>(compaction.kept.dim(1));
  const std::span<const std::int32_t> all_kept(compaction.kept.as<std::int32_t>(),
                                               static_cast<std::size_t>(kv_heads) * num_kept);
  const auto kept_of = [&](std::int64_t kv_head) {
    return all_kept.subspan(static_cast<std::size_t>(kv_head) * num_kept, num_kept);
  };
  for (std::int64_t kv_head = 0; kv_head < kv_heads; ++kv_head) {
    check_kept(kept_of(kv_head), compaction.num_tokens);
  }
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t kv_head = begin; kv_head < end; ++kv_head) {
      const Head head{.table = compaction.block_table.as<std::int32_t>(),
                      .page_tokens = pages.k.dim(1),
                      .kv_heads = kv_heads,
                      .kv_head = kv_head};
      const std::span<const std::int32_t> kept = kept_of(kv_head);
      std::vector<std::int64_t> dropped;
      auto next = kept.begin();
      for (std::int64_t position = 0; position < compaction.num_tokens; ++position) {
        if (next != kept.end() && *next == position) {
          ++next;
        } else {
          dropped.push_back(position);
        }
      }
      compact_half(pages.k, pages.k_scales, head, kept, dropped, compaction.num_summaries);
      compact_half(pages.v, pages.v_scales, head, kept, dropped, compaction.num_summaries);
    }
  };
  cpu::parallel_for(stream, kv_heads, 2 * compaction.num_tokens * pages.k.dim(3), work);
}

}  // namespace caption::kernels::impl
