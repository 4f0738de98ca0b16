// attention() and paged_attention() on a GPU: whether rows are attended split by split, and the
// fold of their states: a block per vector of y, a thread per dimension.
//
// Traffic  4 bytes per dimension and split, written once and read once.
// Measured on no GPU.
#include "kernels/attention.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/compressed_attention.h"
#include "kernels/cuda/attend.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/paged_attention.h"

namespace caption::kernels::cuda {
namespace {

constexpr int kFoldThreads = 128;
constexpr int kFoldedAtOnce = 8;  // states that a thread loads before it folds the first
// Twice the multiprocessors of an H200.
constexpr std::int64_t kEnoughBlocks = 264;
constexpr int kFewRows = 16;      // rows that a tile of one warp has
constexpr int kPrefillRows = 64;  // rows that a tile of four warps has
constexpr std::int64_t kMostStateBytes = std::int64_t{256} << 20;

struct FoldSplits {
  static constexpr int kThreads = kFoldThreads;
  using Params = AttendParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int vector = block_x();
    const Tile token = find_tile(p, vector / p.heads, p.group());
    const KeyRange keys = token.keys_of(p, 0);
    const int first_state = token.sequence.first_split(p);
    for (int d = thread_index(); d < p.head_dim; d += kFoldThreads) {
      RowState state;
      float output = 0;
      const int end = (keys.end + kSplitKeys - 1) / kSplitKeys;
      for (int split = keys.begin / kSplitKeys; split < end; split += kFoldedAtOnce) {
        RowState next[kFoldedAtOnce];
        float next_output[kFoldedAtOnce];
        CAPTION_UNROLL
        for (int i = 0; i < kFoldedAtOnce; ++i) {
          const int at = split + i < end ? split + i : end - 1;
          const float* const from = p.state(vector, at - first_state);
          next[i] = {load(from + p.state_sums()), load(from + p.state_sums() + 1)};
          next_output[i] = load(from + d);
        }
        CAPTION_UNROLL
        for (int i = 0; i < kFoldedAtOnce; ++i) {
          if (split + i >= end) continue;
          const FoldFactors factors = fold(state, next[i]);
          output = fused(output, factors.first, next_output[i] * factors.second);
        }
      }
      store_numbers<1>(p.y, p.output_offset(vector) + d, {finished(output, state.sum)});
    }
  }
};

std::int64_t count_splits(const AttendParams& p) {
  const auto splits_of = [](std::int64_t keys) { return (keys + kSplitKeys - 1) / kSplitKeys; };
  const std::int64_t all = splits_of(p.kv_len);
  if (p.window == 0) return all;
  // Rows of one sequence see at most this many adjacent keys, which may begin within a split.
  const std::int64_t keys = static_cast<std::int64_t>(p.window) + p.rows - 1;
  return std::min(all, splits_of(keys - 1) + 1);
}

bool wants_splits(const AttendParams& p, std::int64_t num_splits, std::int64_t state_bytes) {
  if (num_splits == 1 || state_bytes > kMostStateBytes) return false;
  const std::int64_t rows = std::int64_t{p.rows} * (p.heads / p.kv_heads);  // rows per key head
  if (rows <= kFewRows * std::int64_t{p.num_seqs}) return true;  // most sequences are decoding
  const Grid grid = grid_of_tiles(p, kPrefillRows);
  return std::int64_t{grid.x} * grid.y < kEnoughBlocks;
}

// Turing's tensor cores have no bf16. 0, of no GPU, is the emulator's.
bool has_tensor_cores(const Context& context, DType kv_dtype) {
  const int capability = context.compute_capability;
  return kv_dtype == DType::kF16 || capability == 0 || capability >= 80;
}

}  // namespace

Grid grid_of_tiles(const AttendParams& p, int tile_rows) {
  const std::int64_t group = p.heads / p.kv_heads;
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
  const std::int64_t states = std::int64_t{params.rows} * params.heads * num_splits;
  const std::int64_t state_bytes = states * (params.head_dim + 15) * 4;
  params.num_splits = static_cast<int>(num_splits);
  params.states = nullptr;
  if (splitting == Splitting::kAll ||
      (splitting == Splitting::kAuto && wants_splits(params, num_splits, state_bytes))) {
    params.states = reinterpret_cast<float*>(stream.scratch(static_cast<std::size_t>(state_bytes)));
  }
  if (attends_tiles(params) && has_tensor_cores(stream.context(), params.kv_dtype)) {
    attend_tiles(stream, params);
  } else {
    attend_f32(stream, params);
  }
  if (params.states == nullptr) return;
  launch<FoldSplits>(stream, {.x = static_cast<unsigned>(params.rows * params.heads)}, params);
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
