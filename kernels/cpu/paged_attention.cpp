#include "kernels/paged_attention.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "kernels/cpu/attend.h"
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

// Every index that attention will follow stays inside the pages and the query rows.
void check_context(const PagedContext& context, std::int64_t num_rows) {
  const std::int64_t num_seqs = context.context_lens.dim(0);
  const std::int64_t num_pages = context.k_pages.dim(0);
  const std::int64_t page_tokens = context.k_pages.dim(1);
  const std::int32_t* const begin = context.cu_seqlens.as<std::int32_t>();
  const std::int32_t* const length = context.context_lens.as<std::int32_t>();
  CAPTION_CHECK(begin[0] == 0 && begin[num_seqs] == num_rows,
                "paged_attention: cu_seqlens runs from " + std::to_string(begin[0]) + " to " +
                    std::to_string(begin[num_seqs]) + "; wanted 0 to " + std::to_string(num_rows));
  for (std::int64_t s = 0; s < num_seqs; ++s) {
    CAPTION_CHECK(begin[s] <= begin[s + 1], "paged_attention: cu_seqlens descends");
    CAPTION_CHECK(length[s] >= begin[s + 1] - begin[s],
                  "paged_attention: a context of " + std::to_string(length[s]) +
                      " tokens is shorter than its " + std::to_string(begin[s + 1] - begin[s]) +
                      " query rows");
    const std::int64_t pages = (length[s] + page_tokens - 1) / page_tokens;
    CAPTION_CHECK(pages <= context.block_tables.dim(1),
                  "paged_attention: a context of " + std::to_string(length[s]) +
                      " tokens needs more pages than its block table has");
    const std::int32_t* const table =
        context.block_tables.as<std::int32_t>() + s * context.block_tables.row_stride();
    for (std::int64_t i = 0; i < pages; ++i) {
      CAPTION_CHECK(table[i] >= 0 && table[i] < num_pages,
                    "paged_attention: page " + std::to_string(table[i]) + " is not one of " +
                        std::to_string(num_pages));
    }
  }
}

// The tiles of one call: for each sequence, its rows (token, head of the group) in runs of
// kTileQueries, times the key heads.
struct Tiles {
  const std::int32_t* cu_seqlens;
  std::int64_t num_seqs;
  std::int64_t group;  // query heads per key head
  std::int64_t kv_heads;

  std::int64_t of_sequence(std::int64_t s) const {
    const std::int64_t rows = (cu_seqlens[s + 1] - cu_seqlens[s]) * group;
    return (rows + cpu::kTileQueries - 1) / cpu::kTileQueries * kv_heads;
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
};

void attend_tile(const cpu::Tier& tier, const Tiles& tiles, std::int64_t item, ConstView q,
                 const PagedContext& context, float scale, View y) {
  const std::int64_t s = tiles.locate(item);
  const std::int64_t kv_head = item % tiles.kv_heads;
  const std::int64_t head_dim = q.dim(2);
  const std::int64_t first_token = tiles.cu_seqlens[s];
  const std::int64_t num_tokens = tiles.cu_seqlens[s + 1] - first_token;
  const std::int64_t first_row = item / tiles.kv_heads * cpu::kTileQueries;
  const std::int64_t context_len = context.context_lens.as<std::int32_t>()[s];

  cpu::Queries queries;
  queries.count = std::min(cpu::kTileQueries, num_tokens * tiles.group - first_row);
  for (std::int64_t m = 0; m < queries.count; ++m) {
    const std::int64_t token = (first_row + m) / tiles.group;
    const std::int64_t head = kv_head * tiles.group + (first_row + m) % tiles.group;
    const std::int64_t row = first_token + token;
    queries.q[m] = q.as<float>() + row * q.row_stride() + head * head_dim;
    queries.y[m] = y.as<float>() + row * y.row_stride() + head * head_dim;
    queries.num_visible[m] = context_len - num_tokens + token + 1;
  }
  const auto element_bytes = static_cast<std::int64_t>(dtype_size_bytes(context.k_pages.dtype()));
  const std::int64_t head_bytes = kv_head * head_dim * element_bytes;
  const std::int64_t token_stride = tiles.kv_heads * head_dim;
  const std::int64_t page_tokens = context.k_pages.dim(1);
  cpu::Keys keys{
      .k = static_cast<const std::byte*>(context.k_pages.raw()) + head_bytes,
      .v = static_cast<const std::byte*>(context.v_pages.raw()) + head_bytes,
      .element = cpu::element_of(context.k_pages.dtype()),
      .element_bytes = element_bytes,
      .token_stride = token_stride,
      .run_tokens = page_tokens,
      .run_stride = page_tokens * token_stride,
      .pages = context.block_tables.as<std::int32_t>() + s * context.block_tables.row_stride()};
  if (keys.element == cpu::Element::kI8) {
    keys.k_scales = context.k_scales.as<BF16>() + kv_head;
    keys.v_scales = context.v_scales.as<BF16>() + kv_head;
    keys.scale_stride = tiles.kv_heads;
  }
  cpu::attend(tier, keys, queries, head_dim, scale);
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
  check_context(context, q.dim(0));
  const std::int64_t kv_heads = context.k_pages.dim(2);
  const Tiles tiles{.cu_seqlens = context.cu_seqlens.as<std::int32_t>(),
                    .num_seqs = context.context_lens.dim(0),
                    .group = q.dim(1) / kv_heads,
                    .kv_heads = kv_heads};
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
