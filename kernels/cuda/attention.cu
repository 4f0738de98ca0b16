// attention() and paged_attention() on a GPU: whether rows are attended split by split.
//
// Traffic of splits  4 bytes per dimension and split, written once and read once.
#include "kernels/attention.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/compressed_attention.h"
#include "kernels/cuda/attend.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/paged_attention.h"

namespace caption::kernels::cuda {
namespace {

// Twice the multiprocessors of an H200.
constexpr std::int64_t kEnoughBlocks = 264;
static_assert(kShortSplitKeys == 256 && kLongSplitKeys == 512 &&
              kLongSplitsBegin == kGpuLongSplitsBegin);
constexpr int kPrefillRows = 64;  // rows of a tile whose splits one block folds

std::int64_t count_splits(const AttendParams& p) {
  const std::int64_t all = count_gpu_splits(p.kv_len);
  if (p.window == 0) return all;
  // Rows of one sequence see at most this many adjacent keys, which may begin within a split, and
  // are in the most splits where these are short.
  const std::int64_t keys = static_cast<std::int64_t>(p.window) + p.rows - 1;
  return std::min(all, (keys - 1 + kShortSplitKeys - 1) / kShortSplitKeys + 1);
}

bool can_split(const AttendParams& p) {
  const Grid tiles = grid_of_tiles(p, kSplitRows);
  return std::int64_t{tiles.x} * tiles.y <= Stream::kNumCounters;
}

bool wants_splits(const AttendParams& p, std::int64_t num_splits, std::int64_t state_bytes) {
  if (num_splits == 1 || state_bytes > kMostStateBytes || !can_split(p)) return false;
  const std::int64_t rows = std::int64_t{p.rows} * p.group;        // rows per key head
  if (rows <= kSplitRows * std::int64_t{p.num_seqs}) return true;  // most sequences are decoding
  const Grid grid = grid_of_tiles(p, kPrefillRows);
  return std::int64_t{grid.x} * grid.y < kEnoughBlocks;
}

// Turing's tensor cores have no bf16.
bool has_tensor_cores(const Context& context, DType kv_dtype) {
  return kv_dtype == DType::kF16 || !kTuring.contains(context.compute_capability);
}

}  // namespace

Grid grid_of_tiles(const AttendParams& p, int tile_rows) {
  const std::int64_t group = p.group;
  std::int64_t tiles = 0;
  if (p.block_tables == nullptr) {
    tiles = p.num_seqs * ((p.seq_len * group + tile_rows - 1) / tile_rows);
  } else {
    // The last tile of a sequence has at least one row.
    const std::int64_t missing = std::int64_t{std::min(p.num_seqs, p.rows)} * (tile_rows - 1);
    tiles = (p.rows * group + missing) / tile_rows;
  }
  return {.x = static_cast<unsigned>(tiles),
          .y = static_cast<unsigned>(p.kv_heads),
          .z = static_cast<unsigned>(p.states == nullptr ? 1 : p.num_splits)};
}

void attend(Stream& stream, AttendParams params, Splitting splitting) {
  const std::int64_t num_splits = count_splits(params);
  const std::int64_t state_bytes =
      attention_state_bytes(params.rows, params.heads, params.head_dim, num_splits);
  params.num_splits = static_cast<int>(num_splits);
  params.states = nullptr;
  if (splitting == Splitting::kAll ||
      (splitting == Splitting::kAuto && wants_splits(params, num_splits, state_bytes))) {
    CAPTION_CHECK(can_split(params), "attention in splits of more tiles than there are counters");
    params.states = reinterpret_cast<float*>(stream.scratch(static_cast<std::size_t>(state_bytes)));
    params.arrived = stream.counters();
  }
  if (attends_tiles(params) && has_tensor_cores(stream.context(), params.kv_dtype)) {
    attend_tiles(stream, params);
  } else {
    attend_f32(stream, params);
  }
}

AttendParams paged_operands(ConstView q, const PagedContext& context, float scale, View y) {
  if (std::any_of(context.clusters.begin(), context.clusters.end(),
                  [](const KeyClusters* clusters) { return clusters != nullptr; })) {
    refuse_compressed_attention("paged_attention");
  }
  const auto indices = [](ConstView view) { return static_cast<const std::int32_t*>(view.raw()); };
  const std::int64_t page_tokens = context.k_pages.dim(1);
  const std::int64_t kv_heads = context.k_pages.dim(2);
  return {.q = static_cast<const float*>(q.raw()),
          .y = numbers_of(y),
          .k = context.k_pages.raw(),
          .v = context.v_pages.raw(),
          .k_scales = static_cast<const BF16*>(context.k_scales.raw()),
          .v_scales = static_cast<const BF16*>(context.v_scales.raw()),
          .cu_seqlens = indices(context.cu_seqlens),
          .context_lens = indices(context.context_lens),
          .block_tables = indices(context.block_tables),
          .q_stride = q.row_stride(),
          .y_stride = y.row_stride(),
          .kv_stride = kv_heads * q.dim(2),
          .kv_dtype = context.k_pages.dtype(),
          .rows = static_cast<int>(q.dim(0)),
          .num_seqs = static_cast<int>(context.context_lens.dim(0)),
          .heads = static_cast<int>(q.dim(1)),
          .kv_heads = static_cast<int>(kv_heads),
          .group = static_cast<int>(q.dim(1) / kv_heads),
          .head_dim = static_cast<int>(q.dim(2)),
          .table_stride = static_cast<int>(context.block_tables.row_stride()),
          .page_tokens = static_cast<int>(page_tokens),
          .kv_len = static_cast<int>(context.block_tables.dim(1) * page_tokens),
          .window = static_cast<int>(context.window),
          .scale = scale};
}

AttendParams dense_operands(const AttentionInput& input, View y) {
  if (input.k.row_stride() != input.v.row_stride()) {
    throw Error(ErrorCode::kInternal, "attention: k and v have different row strides");
  }
  const std::int64_t kv_len = input.kv_len == 0 ? input.seq_len : input.kv_len;
  return {.q = static_cast<const float*>(input.q.raw()),
          .y = numbers_of(y),
          .k = input.k.raw(),
          .v = input.v.raw(),
          .q_stride = input.q.row_stride(),
          .y_stride = y.row_stride(),
          .kv_stride = input.k.row_stride(),
          .kv_dtype = input.k.dtype(),
          .rows = static_cast<int>(y.dim(0)),
          .num_seqs = static_cast<int>(y.dim(0) / input.seq_len),
          .heads = static_cast<int>(y.dim(1)),
          .kv_heads = static_cast<int>(input.k.dim(1)),
          .group = static_cast<int>(y.dim(1) / input.k.dim(1)),
          .head_dim = static_cast<int>(y.dim(2)),
          .seq_len = static_cast<int>(input.seq_len),
          .kv_len = static_cast<int>(kv_len),
          .scale = input.scale};
}

}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

void attention(Cuda, Stream& stream, const AttentionInput& input, View y) {
  cuda::attend(stream, cuda::dense_operands(input, y));
}

void paged_attention(Cuda, Stream& stream, ConstView q, const PagedContext& context, float scale,
                     View y) {
  cuda::attend(stream, cuda::paged_operands(q, context, scale, y));
}

}  // namespace caption::kernels::impl
