#include "kernels/cpu/attend_cascade.h"

#include <algorithm>
#include <numeric>

#include "kernels/cpu/attend.h"

namespace caption::kernels::cpu {
namespace {

struct Tables {
  const PagedContext& context;

  bool has_clusters(std::int32_t s) const {
    return !context.clusters.empty() && context.clusters[static_cast<std::size_t>(s)] != nullptr;
  }
  std::int64_t length(std::int32_t s) const { return context.context_lens.as<std::int32_t>()[s]; }
  std::span<const std::int32_t> pages(std::int32_t s) const {
    const std::int64_t page_tokens = context.k_pages.dim(1);
    return {context.block_tables.as<std::int32_t>() + s * context.block_tables.row_stride(),
            static_cast<std::size_t>((length(s) + page_tokens - 1) / page_tokens)};
  }
  // Lexicographic order of block tables, so that sequences with common leading pages are adjacent.
  bool is_before(std::int32_t a, std::int32_t b) const {
    const auto left = pages(a);
    const auto right = pages(b);
    const auto [i, j] = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
    if (i != left.end() && j != right.end()) return *i < *j;
    return left.size() != right.size() ? left.size() < right.size() : a < b;
  }
  std::int64_t common_blocks(std::int32_t a, std::int32_t b) const {
    if (has_clusters(a) || has_clusters(b)) return 0;
    const auto left = pages(a);
    const auto right = pages(b);
    const auto same =
        std::mismatch(left.begin(), left.end(), right.begin(), right.end()).first - left.begin();
    const std::int64_t tokens = std::min({same * context.k_pages.dim(1), length(a), length(b)});
    return tokens / kBlockKeys;
  }
};

}  // namespace

// The sorted sequences are the leaves of a prefix tree whose inner nodes are common leading blocks.
// The tree is walked level by level; the segments found so far are the queue.
std::span<Segment> find_segments(const PagedContext& context, std::span<std::int32_t> order,
                                 std::span<std::int64_t> common, Segment* segments) {
  const Tables tables{context};
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::int32_t a, std::int32_t b) { return tables.is_before(a, b); });
  // common[i] is the number of leading blocks that sequences i - 1 and i of the order share.
  for (std::size_t i = 1; i < order.size(); ++i) {
    common[i] = tables.common_blocks(order[i - 1], order[i]);
  }
  std::size_t found = 0;
  if (!order.empty()) {
    segments[found++] = {.first = 0, .count = static_cast<std::int32_t>(order.size())};
  }
  for (std::size_t at = 0; at < found; ++at) {
    Segment& segment = segments[at];
    const auto begin = static_cast<std::size_t>(segment.first);
    const std::size_t end = begin + static_cast<std::size_t>(segment.count);
    if (segment.count == 1) {
      segment.end_block = num_blocks(tables.length(order[begin]));
      continue;
    }
    segment.end_block = *std::min_element(common.begin() + static_cast<std::ptrdiff_t>(begin) + 1,
                                          common.begin() + static_cast<std::ptrdiff_t>(end));
    const bool is_empty = segment.end_block == segment.first_block;
    for (std::size_t first = begin; first < end;) {
      std::size_t next = first + 1;
      while (next < end && common[next] > segment.end_block) ++next;
      segments[found++] = {.first = static_cast<std::int32_t>(first),
                           .count = static_cast<std::int32_t>(next - first),
                           .first_block = segment.end_block,
                           .level = segment.level + (is_empty ? 0 : 1)};
      first = next;
    }
  }
  return {segments, found};
}

}  // namespace caption::kernels::cpu
