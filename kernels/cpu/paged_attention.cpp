// Attention over paged keys and values on the CPU, and writing them.
//
// Traffic   per sequence and layer 2 * context * kv_heads * head_dim numbers of K and V. 16 times
//           512 tokens, 8 heads of 128, bf16: 33.6 MB, so >= 1.6 ms at 21.1 GB/s.
// Measured  `kernels_bench 2` on two vCPUs of Zen 5, 2026-11-26, the share of the rate of reading
//           memory that 16 sequences of 512 tokens reach: 71 % with pages of bf16, 66 % of i8 (the
//           AVX512-BF16 tier); 66 % of bf16, 40 % of i8, 72 % of f32 (AVX2). Two vCPUs with AMX,
//           2026-11-22: 50 % of bf16, where few queries, too, take panels.
#include "kernels/paged_attention.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>

#include "kernels/cpu/attend.h"
#include "kernels/cpu/attend_cascade.h"
#include "kernels/cpu/attend_items.h"
#include "kernels/cpu/paged_keys.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/select_tier.h"
#include "kernels/cpu/write_token.h"
#include "tensor/dtype.h"

namespace caption::kernels::impl {
namespace {

// How a segment is divided into items. Its rows, pairs of a token and a query head of the group, of
// all its sequences in turn are cut into tiles of `tile_rows`; an item is a tile for `heads` key
// heads. With key clusters a tile does not extend beyond its token.
struct Tiling {
  std::int64_t rows = 0;
  std::int64_t tile_rows = 0;
  std::int64_t tiles = 0;
  std::int64_t heads = 1;
  std::int64_t items = 0;
  std::int64_t operations = 0;  // an estimate for one item
};

// The arguments of one call of paged_attention().
struct Call {
  const cpu::Tier& tier;
  const PagedContext& context;
  ConstView q;
  float scale;
  View y;
  std::span<const std::int32_t> order;
  cpu::RowState* states;  // [T, heads]

  std::int64_t kv_heads() const { return context.k_pages.dim(2); }
  std::int64_t head_dim() const { return q.dim(2); }
  std::int64_t group() const { return q.dim(1) / kv_heads(); }  // query heads per key head
  std::int64_t first_token(std::int32_t s) const {
    return context.cu_seqlens.as<std::int32_t>()[s];
  }
  std::int64_t num_tokens(std::int32_t s) const { return first_token(s + 1) - first_token(s); }
  const KeyClusters* clusters_of(std::int32_t s) const {
    return context.clusters.empty() ? nullptr : context.clusters[static_cast<std::size_t>(s)];
  }
  std::span<const std::int32_t> sequences(const cpu::Segment& segment) const {
    return order.subspan(static_cast<std::size_t>(segment.first),
                         static_cast<std::size_t>(segment.count));
  }
};

// The queries of one token that share a key head.
struct GroupQueries {
  const float* q = nullptr;  // [count, head_dim]
  std::int64_t count = 0;
  float scale = 0;
};

// Sets is_selected[c] if at least one of the queries estimates for cluster c a share of the
// attention of at least the threshold.
void select_clusters(const cpu::Tier& tier, const KeyClusters& clusters, std::int64_t kv_head,
                     const GroupQueries& queries, bool* is_selected) {
  const std::int64_t count = clusters.centroids.dim(1);
  const std::int64_t head_dim = clusters.centroids.dim(2);
  const float* const centroids = clusters.centroids.as<float>() + kv_head * count * head_dim;
  const std::int32_t* const sizes = clusters.sizes.as<std::int32_t>() + kv_head * count;
  std::fill_n(is_selected, count, false);
  float scores[kMaxKeyClusters];
  for (std::int64_t h = 0; h < queries.count; ++h) {
    tier.dot[static_cast<int>(cpu::Element::kF32)]({.a = queries.q + h * head_dim,
                                                    .a_stride = head_dim,
                                                    .b = centroids,
                                                    .b_stride = head_dim,
                                                    .c = scores,
                                                    .c_stride = count,
                                                    .m = 1,
                                                    .n = count,
                                                    .k = head_dim});
    float max = std::numeric_limits<float>::lowest();
    for (std::int64_t c = 0; c < count; ++c) {
      scores[c] *= queries.scale;
      if (sizes[c] > 0) max = std::max(max, scores[c]);
    }
    for (std::int64_t c = 0; c < count; ++c) {
      if (sizes[c] == 0) scores[c] = max;  // an empty cluster has share 0; avoids overflow of exp()
    }
    tier.exp_sum(scores, count, max);
    float total = 0;
    for (std::int64_t c = 0; c < count; ++c) {
      scores[c] *= static_cast<float>(sizes[c]);
      total += scores[c];
    }
    // The negated comparison selects a cluster whose share is NaN, so that the NaN reaches the
    // result.
    for (std::int64_t c = 0; c < count; ++c) {
      is_selected[c] |= !(scores[c] < clusters.threshold * total);
    }
  }
}

// Bytes of keys and values of one block for all heads of an item. Two blocks must fit a
// second-level cache of 1 MiB with room to spare.
constexpr std::int64_t kHeadsBytes = 256 << 10;

// Gathering keys and values takes about as long as multiplying so many rows by them.
constexpr std::int64_t kGatherRows = 4;

// The threads that share the items of a call, and the segments that they run at the same time.
struct Concurrency {
  std::int64_t num_threads = 1;
  std::int64_t num_segments = 1;
};

// Returns how many key heads an item may have. With the products of few queries all heads of a row
// are read together, as they lie in memory, if that leaves four items for every thread. The limit
// kv_heads / num_threads leaves an item for every thread even if there is only one tile, provided
// that there are enough key heads.
std::int64_t most_heads(const Call& call, const Tiling& tiling, const Concurrency& concurrency) {
  const std::int64_t of_one_tile = call.kv_heads() / concurrency.num_threads;
  const DType dtype = call.context.k_pages.dtype();
  const auto element = static_cast<std::size_t>(cpu::element_of(dtype));
  const bool has_few = call.tier.attention.few_queries[element].score != nullptr;
  if (has_few && tiling.tile_rows <= cpu::kFewQueries) {
    const std::int64_t tiles = std::max(tiling.tiles, concurrency.num_segments);
    return std::max(of_one_tile, call.kv_heads() * tiles / (4 * concurrency.num_threads));
  }
  const std::int64_t block_bytes =
      2 * cpu::kBlockKeys * call.head_dim() * static_cast<std::int64_t>(dtype_size_bytes(dtype));
  return std::min(kHeadsBytes / block_bytes, of_one_tile);
}

Tiling tile_segment(const Call& call, const cpu::Segment& segment, const Concurrency& concurrency) {
  Tiling tiling;
  if (segment.first_block == segment.end_block) return tiling;
  const auto sequences = call.sequences(segment);
  for (const std::int32_t s : sequences) tiling.rows += call.num_tokens(s) * call.group();
  if (call.clusters_of(sequences[0]) != nullptr) {
    tiling.tile_rows = std::min(cpu::kTileQueries, call.group());
    const std::int64_t per_token = (call.group() + tiling.tile_rows - 1) / tiling.tile_rows;
    tiling.tiles = call.num_tokens(sequences[0]) * per_token;
  } else {
    tiling.tile_rows = std::clamp<std::int64_t>(tiling.rows, 1, cpu::kTileQueries);
    tiling.tiles = (tiling.rows + tiling.tile_rows - 1) / tiling.tile_rows;
    const std::int64_t most =
        std::min(cpu::kTileQueries / tiling.tile_rows, most_heads(call, tiling, concurrency));
    while (tiling.heads * 2 <= most && call.kv_heads() % (tiling.heads * 2) == 0) tiling.heads *= 2;
  }
  tiling.items = tiling.tiles * (call.kv_heads() / tiling.heads);
  const std::int64_t num_keys =
      std::min<std::int64_t>(segment.end_block * cpu::kBlockKeys,
                             call.context.context_lens.as<std::int32_t>()[sequences[0]]) -
      segment.first_block * cpu::kBlockKeys;
  tiling.operations =
      4 * num_keys * call.head_dim() * tiling.heads * (tiling.tile_rows + kGatherRows);
  return tiling;
}

// Fills `queries` with the rows [first, end) of a segment for the key heads [kv_head, kv_head +
// num_heads).
void collect_queries(const Call& call, const cpu::Segment& segment, std::int64_t first,
                     std::int64_t end, std::int64_t kv_head, cpu::Queries& queries) {
  queries.count = end - first;
  const std::int64_t group = call.group();
  std::int64_t m = 0;
  for (const std::int32_t s : call.sequences(segment)) {
    const std::int64_t rows = call.num_tokens(s) * group;
    const std::int64_t before =
        call.context.context_lens.as<std::int32_t>()[s] - call.num_tokens(s);
    for (; first < std::min(rows, end); ++first, ++m) {
      const std::int64_t row = call.first_token(s) + first / group;
      queries.num_visible[m] = before + first / group + 1;
      for (std::int64_t h = 0; h < queries.num_heads; ++h) {
        const std::int64_t head = (kv_head + h) * group + first % group;
        const std::int64_t at = h * queries.count + m;
        queries.q[at] = call.q.as<float>() + row * call.q.row_stride() + head * call.head_dim();
        queries.y[at] = call.y.as<float>() + row * call.y.row_stride() + head * call.head_dim();
        queries.state[at] = call.states + row * call.q.dim(1) + head;
      }
    }
    first -= rows;
    end -= rows;
    if (end <= 0) return;
  }
}

// A token of sequence s, counted from the sequence's first row, and a key head.
struct TokenHead {
  std::int32_t s = 0;
  std::int64_t token = 0;
  std::int64_t kv_head = 0;
};

// Attends one token's queries to the keys of the clusters that the token selects.
void attend_selected(const Call& call, const TokenHead& of, cpu::AttendArgs& args,
                     const cpu::Queries& queries, std::byte* workspace) {
  const auto [s, token, kv_head] = of;
  const KeyClusters& clusters = *call.clusters_of(s);
  bool is_selected[kMaxKeyClusters];
  const std::int64_t row = call.first_token(s) + token;
  const float* const group_queries =
      call.q.as<float>() + row * call.q.row_stride() + kv_head * call.group() * call.head_dim();
  select_clusters(call.tier, clusters, kv_head,
                  {.q = group_queries, .count = call.group(), .scale = call.scale}, is_selected);
  const std::int64_t num_tokens = clusters.cluster_of.dim(1);
  const cpu::Selection selection{
      .first_token = clusters.first_token,
      .num_tokens = num_tokens,
      .cluster_of = clusters.cluster_of.as<std::int32_t>() + kv_head * num_tokens,
      .is_selected = is_selected};
  args.selection = &selection;
  cpu::attend(call.tier, args, queries, workspace);
}

void attend_item(const Call& call, const cpu::Segment& segment, const Tiling& tiling,
                 std::int64_t item, std::byte* workspace) {
  const std::int64_t kv_head = item / tiling.tiles * tiling.heads;
  const std::int64_t tile = item % tiling.tiles;
  const std::int32_t s = call.sequences(segment)[0];
  cpu::AttendArgs args{.keys = cpu::paged_keys(call.context, s, kv_head),
                       .head_dim = call.head_dim(),
                       .scale = call.scale,
                       .blocks = {.first = segment.first_block, .end = segment.end_block},
                       .window = call.context.window};
  cpu::Queries queries;
  queries.num_heads = tiling.heads;
  if (call.clusters_of(s) == nullptr) {
    const std::int64_t first = tile * tiling.tile_rows;
    collect_queries(call, segment, first, std::min(tiling.rows, first + tiling.tile_rows), kv_head,
                    queries);
    cpu::attend(call.tier, args, queries, workspace);
    return;
  }
  const std::int64_t group = call.group();
  const std::int64_t per_token = (group + tiling.tile_rows - 1) / tiling.tile_rows;
  const std::int64_t token = tile / per_token;
  const std::int64_t first = token * group + tile % per_token * tiling.tile_rows;
  collect_queries(call, segment, first, std::min((token + 1) * group, first + tiling.tile_rows),
                  kv_head, queries);
  attend_selected(call, {.s = s, .token = token, .kv_head = kv_head}, args, queries, workspace);
}

// The parts of the stream's scratch memory that one call uses.
struct Scratch {
  std::span<std::int32_t> order;
  std::span<std::int64_t> common;
  cpu::Segment* segments = nullptr;
  Tiling* tilings = nullptr;
  cpu::RowState* states = nullptr;
  std::byte* workspaces = nullptr;
  std::size_t workspace_bytes = 0;
};

Scratch take_scratch(Stream& stream, std::size_t num_seqs, std::size_t num_states,
                     std::int64_t head_dim) {
  const auto padded = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
  Scratch scratch;
  scratch.workspace_bytes = cpu::attend_workspace_bytes(head_dim);
  const std::size_t sizes[] = {
      padded(num_seqs * sizeof(std::int32_t)),
      padded(num_seqs * sizeof(std::int64_t)),
      padded(2 * num_seqs * sizeof(cpu::Segment)),
      padded(2 * num_seqs * sizeof(Tiling)),
      padded(num_states * sizeof(cpu::RowState)),
      scratch.workspace_bytes * static_cast<std::size_t>(stream.pool().num_threads())};
  std::byte* memory =
      stream.scratch(std::accumulate(std::begin(sizes), std::end(sizes), std::size_t{0}));
  std::byte* parts[std::size(sizes)];
  for (std::size_t i = 0; i < std::size(sizes); memory += sizes[i++]) parts[i] = memory;
  scratch.order = {reinterpret_cast<std::int32_t*>(parts[0]), num_seqs};
  scratch.common = {reinterpret_cast<std::int64_t*>(parts[1]), num_seqs};
  scratch.segments = reinterpret_cast<cpu::Segment*>(parts[2]);
  scratch.tilings = reinterpret_cast<Tiling*>(parts[3]);
  scratch.states = reinterpret_cast<cpu::RowState*>(parts[4]);
  scratch.workspaces = parts[5];
  return scratch;
}

// Runs the segments of one level, which are independent, in parallel.
void attend_level(Stream& stream, const Call& call, std::span<const cpu::Segment> segments,
                  const Scratch& scratch) {
  const Concurrency concurrency{.num_threads = stream.pool().num_threads(),
                                .num_segments = std::ssize(segments)};
  std::int64_t total = 0;
  std::int64_t operations = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    scratch.tilings[i] = tile_segment(call, segments[i], concurrency);
    total += scratch.tilings[i].items;
    operations += scratch.tilings[i].items * scratch.tilings[i].operations;
  }
  operations /= std::max<std::int64_t>(1, total);
  cpu::for_each_tile(stream, total, operations, scratch.workspaces, scratch.workspace_bytes,
                     [&](std::int64_t item, std::byte* workspace) {
                       std::size_t i = 0;
                       for (; item >= scratch.tilings[i].items; ++i)
                         item -= scratch.tilings[i].items;
                       attend_item(call, segments[i], scratch.tilings[i], item, workspace);
                     });
}

}  // namespace

void kv_write(Cpu, Stream& stream, ConstView k, ConstView v, ConstView slots,
              const KvLayer& pages) {
  cpu::check_slots(slots, pages);
  const std::int32_t* const slot = slots.as<std::int32_t>();
  const std::int64_t operations = 2 * cpu::kOperationsPerWrite * k.dim(1) * k.dim(2);
  cpu::parallel_for(stream, k.dim(0), operations, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      cpu::write_token(k.as<float>() + t * k.row_stride(), slot[t], pages.k, pages.k_scales);
      cpu::write_token(v.as<float>() + t * v.row_stride(), slot[t], pages.v, pages.v_scales);
    }
  });
}

void paged_attention(Cpu, Stream& stream, ConstView q, const PagedContext& context, float scale,
                     View y) {
  cpu::check_context("paged_attention", context, q.dim(0));
  const Scratch scratch =
      take_scratch(stream, static_cast<std::size_t>(context.context_lens.dim(0)),
                   static_cast<std::size_t>(q.dim(0) * q.dim(1)), q.dim(2));
  const std::span<const cpu::Segment> segments =
      cpu::find_segments(context, scratch.order, scratch.common, scratch.segments);
  const Call call{.tier = cpu::select_tier(stream.cpu_tier()),
                  .context = context,
                  .q = q,
                  .scale = scale,
                  .y = y,
                  .order = scratch.order,
                  .states = scratch.states};
  for (std::size_t begin = 0; begin < segments.size();) {
    std::size_t end = begin;
    while (end < segments.size() && segments[end].level == segments[begin].level) ++end;
    attend_level(stream, call, segments.subspan(begin, end - begin), scratch);
    begin = end;
  }
}

}  // namespace caption::kernels::impl
