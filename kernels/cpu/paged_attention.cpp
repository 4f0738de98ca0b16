#include "kernels/paged_attention.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "kernels/cpu/attend.h"
#include "kernels/cpu/paged_keys.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/quantise.h"
#include "kernels/cpu/select_tier.h"
#include "tensor/dtype.h"

namespace caption::kernels::impl {
namespace {

void check_slots(ConstView slots, std::int64_t num_slots) {
  const std::int32_t* const slot = slots.as<std::int32_t>();
  for (std::int64_t t = 0; t < slots.dim(0); ++t) {
    CAPTION_CHECK(slot[t] >= 0 && slot[t] < num_slots,
                  "kv_write: slot " + std::to_string(slot[t]) + " is outside the " +
                      std::to_string(num_slots) + " that the pages have");
  }
}

// The tiles of one call: for each sequence, its rows (token, head of the group) in runs of
// kTileQueries, times the key heads. With clusters, a run ends with its token.
struct Tiles {
  const std::int32_t* cu_seqlens;
  std::int64_t num_seqs;
  std::int64_t group;  // query heads per key head
  std::int64_t kv_heads;
  std::span<const KeyClusters* const> clusters;

  const KeyClusters* clusters_of(std::int64_t s) const {
    return clusters.empty() ? nullptr : clusters[static_cast<std::size_t>(s)];
  }
  static std::int64_t tiles_of(std::int64_t rows) {
    return (rows + cpu::kTileQueries - 1) / cpu::kTileQueries;
  }
  std::int64_t of_sequence(std::int64_t s) const {
    const std::int64_t tokens = cu_seqlens[s + 1] - cu_seqlens[s];
    return kv_heads *
           (clusters_of(s) == nullptr ? tiles_of(tokens * group) : tokens * tiles_of(group));
  }
  std::int64_t total() const {
    std::int64_t sum = 0;
    for (std::int64_t s = 0; s < num_seqs; ++s) sum += of_sequence(s);
    return sum;
  }
  // The sequence that tile `item` belongs to; leaves in `item` its number inside it.
  std::int64_t locate(std::int64_t& item) const {
    std::int64_t s = 0;
    for (; item >= of_sequence(s); ++s) item -= of_sequence(s);
    return s;
  }
  // The rows [first, end) of tile `run` of a key head.
  std::pair<std::int64_t, std::int64_t> rows_of(std::int64_t s, std::int64_t run) const {
    if (clusters_of(s) == nullptr) {
      const std::int64_t rows = (cu_seqlens[s + 1] - cu_seqlens[s]) * group;
      return {run * cpu::kTileQueries, std::min(rows, (run + 1) * cpu::kTileQueries)};
    }
    const std::int64_t token = run / tiles_of(group);
    const std::int64_t first = token * group + run % tiles_of(group) * cpu::kTileQueries;
    return {first, std::min((token + 1) * group, first + cpu::kTileQueries)};
  }
};

// is_selected[c]: one of the `group` queries, head_dim apart, estimates a share of the attention of
// at least the threshold for cluster c.
void select_clusters(const cpu::Tier& tier, const KeyClusters& clusters, std::int64_t kv_head,
                     const float* queries, std::int64_t group, float scale, bool* is_selected) {
  const std::int64_t count = clusters.centroids.dim(1);
  const std::int64_t head_dim = clusters.centroids.dim(2);
  const float* const centroids = clusters.centroids.as<float>() + kv_head * count * head_dim;
  const std::int32_t* const sizes = clusters.sizes.as<std::int32_t>() + kv_head * count;
  std::fill_n(is_selected, count, false);
  float scores[kMaxKeyClusters];
  for (std::int64_t h = 0; h < group; ++h) {
    tier.dot[static_cast<int>(cpu::Element::kF32)]({.a = queries + h * head_dim,
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
      scores[c] *= scale;
      if (sizes[c] > 0) max = std::max(max, scores[c]);
    }
    for (std::int64_t c = 0; c < count; ++c) {
      if (sizes[c] == 0) scores[c] = max;  // its share is 0: it must not overflow before
    }
    tier.exp_sum(scores, count, max);
    float total = 0;
    for (std::int64_t c = 0; c < count; ++c) {
      scores[c] *= static_cast<float>(sizes[c]);
      total += scores[c];
    }
    // Whatever is not surely below counts: a NaN must reach the result.
    for (std::int64_t c = 0; c < count; ++c) {
      is_selected[c] |= !(scores[c] < clusters.threshold * total);
    }
  }
}

void attend_tile(const cpu::Tier& tier, const Tiles& tiles, std::int64_t item, ConstView q,
                 const PagedContext& context, float scale, View y) {
  const std::int64_t s = tiles.locate(item);
  const std::int64_t kv_head = item % tiles.kv_heads;
  const std::int64_t head_dim = q.dim(2);
  const std::int64_t first_token = tiles.cu_seqlens[s];
  const std::int64_t num_tokens = tiles.cu_seqlens[s + 1] - first_token;
  const auto [first_row, end_row] = tiles.rows_of(s, item / tiles.kv_heads);
  const std::int64_t context_len = context.context_lens.as<std::int32_t>()[s];

  cpu::Queries queries;
  queries.count = end_row - first_row;
  for (std::int64_t m = 0; m < queries.count; ++m) {
    const std::int64_t token = (first_row + m) / tiles.group;
    const std::int64_t head = kv_head * tiles.group + (first_row + m) % tiles.group;
    const std::int64_t row = first_token + token;
    queries.q[m] = q.as<float>() + row * q.row_stride() + head * head_dim;
    queries.y[m] = y.as<float>() + row * y.row_stride() + head * head_dim;
    queries.num_visible[m] = context_len - num_tokens + token + 1;
  }
  const cpu::Keys keys = cpu::paged_keys(context, s, kv_head);
  const KeyClusters* const clusters = tiles.clusters_of(s);
  if (clusters == nullptr) {
    cpu::attend(tier, keys, queries, head_dim, scale);
    return;
  }
  bool is_selected[kMaxKeyClusters];
  const std::int64_t row = first_token + first_row / tiles.group;
  const float* const group_queries =
      q.as<float>() + row * q.row_stride() + kv_head * tiles.group * head_dim;
  select_clusters(tier, *clusters, kv_head, group_queries, tiles.group, scale, is_selected);
  const std::int64_t num_tokens_in_clusters = clusters->cluster_of.dim(1);
  const cpu::Selection selection{
      .first_token = clusters->first_token,
      .num_tokens = num_tokens_in_clusters,
      .cluster_of = clusters->cluster_of.as<std::int32_t>() + kv_head * num_tokens_in_clusters,
      .is_selected = is_selected};
  cpu::attend(tier, keys, queries, head_dim, scale, &selection);
}

// to = from, a token of kv_heads vectors of head_dim.
template <class T>
void write_token(const float* from, std::int64_t slot, View pages, View) {
  const std::int64_t size = pages.dim(2) * pages.dim(3);
  T* const to = pages.as<T>() + slot * size;
  for (std::int64_t i = 0; i < size; ++i) to[i] = from_float<T>(from[i]);
}

template <>
void write_token<std::int8_t>(const float* from, std::int64_t slot, View pages, View scales) {
  const std::int64_t kv_heads = pages.dim(2);
  const std::int64_t head_dim = pages.dim(3);
  for (std::int64_t head = slot * kv_heads; head < (slot + 1) * kv_heads; ++head) {
    scales.as<BF16>()[head] =
        cpu::quantise(from, head_dim, pages.as<std::int8_t>() + head * head_dim);
    from += head_dim;
  }
}

template <class T>
void write_tokens(Stream& stream, ConstView k, ConstView v, ConstView slots, const KvLayer& pages) {
  const std::int32_t* const slot = slots.as<std::int32_t>();
  const std::int64_t operations = 2 * k.dim(1) * k.dim(2);
  cpu::parallel_for(stream, k.dim(0), operations, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      write_token<T>(k.as<float>() + t * k.row_stride(), slot[t], pages.k, pages.k_scales);
      write_token<T>(v.as<float>() + t * v.row_stride(), slot[t], pages.v, pages.v_scales);
    }
  });
}

}  // namespace

void kv_write(Cpu, Stream& stream, ConstView k, ConstView v, ConstView slots,
              const KvLayer& pages) {
  check_slots(slots, pages.k.dim(0) * pages.k.dim(1));
  if (pages.k.dtype() == DType::kI8) {
    write_tokens<std::int8_t>(stream, k, v, slots, pages);
    return;
  }
  dispatch_float(pages.k.dtype(),
                 [&](auto tag) { write_tokens<decltype(tag)>(stream, k, v, slots, pages); });
}

void paged_attention(Cpu, Stream& stream, ConstView q, const PagedContext& context, float scale,
                     View y) {
  cpu::check_context("paged_attention", context, q.dim(0));
  const std::int64_t kv_heads = context.k_pages.dim(2);
  const Tiles tiles{.cu_seqlens = context.cu_seqlens.as<std::int32_t>(),
                    .num_seqs = context.context_lens.dim(0),
                    .group = q.dim(1) / kv_heads,
                    .kv_heads = kv_heads,
                    .clusters = context.clusters};
  const cpu::Tier& tier = cpu::select_tier(stream.cpu_tier());
  // Contexts differ; what a block of keys costs is enough to keep the smallest calls on one thread.
  const std::int64_t operations = 2 * cpu::kTileQueries * cpu::kBlockKeys * q.dim(2);
  cpu::parallel_for(stream, tiles.total(), operations, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      attend_tile(tier, tiles, item, q, context, scale, y);
    }
  });
}

}  // namespace caption::kernels::impl
