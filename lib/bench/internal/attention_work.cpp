#include "bench/internal/attention_work.h"

#include <algorithm>
#include <cmath>

#include "bench/internal/kernel_record.h"

namespace caption::bench {
namespace {

// kernels/cuda/attend.cuh, attend_tiles.cuh and attention.cu:
constexpr std::int64_t kSplitKeys = 256;
constexpr std::int64_t kStepKeys = 64;
constexpr std::int64_t kWarpRows = 16;
constexpr std::int64_t kPrefillRows = 64;  // of a block of four warps
constexpr std::int64_t kEnoughBlocks = 264;
constexpr std::int64_t kMostStateBytes = std::int64_t{256} << 20;
constexpr std::int64_t kFoldedAtOnce = 8;
// Of a block that attends one split, before and after its steps, in the code of nvcc 13.0; and of a
// warp that folds a split.
constexpr double kSplitInstructions = 2000;
constexpr double kFoldInstructions = 75;
// Waits for L2, each of which needs the one before: lengths and slots of keys; lengths, and then a
// group of states after the other.
constexpr double kAttendWaits = 2;

constexpr double kElementBytes = 2;
constexpr double kLineBytes = 128;  // of a wavefront

double as_double(std::int64_t n) { return static_cast<double>(n); }
std::int64_t divide_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; }

// Products of two tiles of 16 dimensions that a warp has for a head: attend_tiles.cu.
std::int64_t dim_tiles(std::int64_t head_dim) {
  return head_dim <= 64 ? 4 : head_dim <= 80 ? 5 : 8;
}

struct Tiling {
  const AttentionCall& call;
  std::int64_t tile_rows;

  std::int64_t group() const { return call.heads / call.kv_heads; }
  std::int64_t rows() const { return call.new_tokens * group(); }  // of a sequence and key head
  std::int64_t tiles() const { return divide_up(rows(), tile_rows); }
  // The keys that the rows of a tile see.
  std::int64_t keys_of(std::int64_t tile) const {
    if (!call.is_causal) return call.keys;
    const std::int64_t last_row = std::min(rows(), (tile + 1) * tile_rows) - 1;
    return call.keys - call.new_tokens + last_row / group() + 1;
  }
  // Of all tiles, sequences and key heads.
  std::int64_t count(std::int64_t unit_keys) const {
    std::int64_t sum = 0;
    for (std::int64_t tile = 0; tile < tiles(); ++tile) sum += divide_up(keys_of(tile), unit_keys);
    return sum * call.sequences * call.kv_heads;
  }
};

// As attend() of kernels/cuda/attention.cu chooses.
bool wants_splits(const AttentionCall& call) {
  const std::int64_t splits = divide_up(call.keys, kSplitKeys);
  const std::int64_t rows = call.sequences * call.new_tokens;
  const std::int64_t state_bytes = rows * call.heads * splits * (call.head_dim + 15) * 4;
  if (splits == 1 || state_bytes > kMostStateBytes) return false;
  const Tiling prefill{call, kPrefillRows};
  if (prefill.rows() <= kWarpRows) return true;
  return prefill.tiles() * call.sequences * call.kv_heads < kEnoughBlocks;
}

// attends_tiles() of kernels/cuda/attend_tiles.cu; other heads have products in f32.
bool attends_tiles(const AttentionCall& call) {
  return call.head_dim >= 32 && call.head_dim <= 128 && call.head_dim % 8 == 0;
}

std::string kernel_of(const CudaCard& card, const AttentionCall& call, bool has_splits) {
  const bool has_bf16 = card.architecture >= 80;
  const int work = !has_splits ? 0 : has_bf16 ? 1 : 2;  // TileWork
  return std::string("AttendTiles<") + (has_bf16 ? "BF16, BF16, " : "F16, F16, ") +
         std::to_string(dim_tiles(call.head_dim)) + ", (TileWork)" + std::to_string(work);
}

// Bytes that a block has under way on average. With two buffers the copy of a step's keys, and that
// of its values, begins when half of the step before has been multiplied; where copies are loads, a
// warp multiplies when they have come.
double bytes_in_flight(const CudaCard& card, const RecordedKernel& kernel, double step_bytes) {
  const double warps = kernel.threads / 32.0;
  const double multiplying = kernel.working_instructions / card.clock_hz;  // of a warp
  if (card.architecture < 80) {
    const double loading =
        kLatencySeconds * std::max(1.0, step_bytes / (kernel.bytes_ahead * warps));
    return step_bytes * kLatencySeconds / (loading + multiplying);
  }
  return step_bytes * kLatencySeconds / std::max(multiplying, kLatencySeconds + multiplying / 2);
}

CudaWork count_tiles(const CudaCard& card, const AttentionCall& call, bool has_splits) {
  const Tiling tiling{call, has_splits ? kWarpRows : kPrefillRows};
  const std::int64_t warps = tiling.tile_rows / kWarpRows;
  const double block_steps = as_double(tiling.count(kStepKeys));
  const double blocks = has_splits ? as_double(tiling.count(kSplitKeys))
                                   : as_double(tiling.tiles() * call.sequences * call.kv_heads);
  const double dims = as_double(dim_tiles(call.head_dim));
  const double vectors = as_double(call.sequences * call.new_tokens * call.heads);
  const double q_bytes = 4 * vectors * as_double(call.head_dim);
  const double step_bytes = 2 * kElementBytes * as_double(kStepKeys * call.head_dim);
  const double kv_bytes =
      2 * kElementBytes * as_double(call.sequences * call.keys * call.kv_heads * call.head_dim);
  CudaWork work{.operation = call.operation, .calls = 1, .launches = 1};
  work.dram_bytes = kv_bytes;
  if (2 * q_bytes > card.l2_bytes / 2) work.dram_bytes += 2 * q_bytes;
  // A tile's rows are q and y, or states of splits, each once.
  const double splits = has_splits ? as_double(divide_up(call.keys, kSplitKeys)) : 1;
  work.l2_bytes = block_steps * step_bytes + q_bytes * (1 + splits);
  const double warp_steps = block_steps * as_double(warps);
  work.products = warp_steps * 2 * dims * as_double(kStepKeys) / 8;
  work.blocks = blocks;
  if (!attends_tiles(call)) return work;
  const auto recorded = find_recorded(kernel_of(card, call, has_splits), card.architecture);
  if (!recorded || recorded->blocks == 0 || recorded->working_instructions == 0) return work;
  work.kernel = recorded->name;
  // ldmatrix of q, of keys and of values, four wavefronts each; a block's copies are written once.
  constexpr double kMatrices = 1 + kStepKeys / 16 + kStepKeys / 16;
  work.wavefronts = warp_steps * 4 * dims * kMatrices + block_steps * step_bytes / kLineBytes;
  work.instructions = warp_steps * recorded->working_instructions;
  if (has_splits) work.instructions += blocks * kSplitInstructions;
  const double resident = std::min<double>(recorded->blocks, std::ceil(blocks / card.num_sms));
  work.warps = resident * as_double(warps);
  work.bytes_in_flight = resident * bytes_in_flight(card, *recorded, step_bytes);
  work.wait_seconds = kAttendWaits * kL2LatencySeconds + kLatencySeconds;
  return work;
}

CudaWork count_fold(const CudaCard& card, const AttentionCall& call) {
  const std::int64_t splits = divide_up(call.keys, kSplitKeys);
  const double vectors = as_double(call.sequences * call.new_tokens * call.heads);
  CudaWork work{.operation = call.operation, .launches = 1};
  const double state_bytes = 4 * as_double(splits * ((call.head_dim + 7) / 8 * 8 + 8));
  work.l2_bytes = vectors * (state_bytes + 4 * as_double(call.head_dim));
  if (work.l2_bytes > card.l2_bytes / 2) work.dram_bytes = work.l2_bytes;
  const auto recorded = find_recorded("FoldSplits", card.architecture);
  if (!recorded) return work;
  work.kernel = recorded->name;
  work.blocks = vectors;
  const double warps = std::ceil(as_double(call.head_dim) / 32);
  work.instructions = vectors * warps * as_double(splits) * kFoldInstructions;
  const double resident = std::min<double>(recorded->blocks, std::ceil(vectors / card.num_sms));
  work.warps = resident * warps;
  work.bytes_in_flight = work.warps * recorded->bytes_ahead;
  work.wait_seconds = kL2LatencySeconds * as_double(1 + divide_up(splits, kFoldedAtOnce));
  return work;
}

}  // namespace

std::vector<CudaWork> count_attention(const CudaCard& card, const AttentionCall& call) {
  const bool has_splits = wants_splits(call);
  std::vector<CudaWork> works = {count_tiles(card, call, has_splits)};
  if (has_splits) works.push_back(count_fold(card, call));
  return works;
}

}  // namespace caption::bench
