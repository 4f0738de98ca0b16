#include "bench/internal/attention_work.h"

#include <algorithm>
#include <cmath>

#include "bench/internal/kernel_record.h"
#include "kernels/paged_attention.h"

namespace caption::bench {
namespace {

// kernels/cuda/attend.cuh, attend_tiles.cuh and attention.cu:
constexpr std::int64_t kStepKeys = 64;
constexpr std::int64_t kWarpRows = 16;
constexpr std::int64_t kPrefillRows = 64;  // rows of a block of four warps
constexpr std::int64_t kEnoughBlocks = 264;
constexpr std::int64_t kWarps = 4;
constexpr std::int64_t kFoldStates = 32;  // splits whose factors a warp finds at once
constexpr double kStepsAhead = 2;         // steps whose copies a split has under way, from sm_80 on
// Instructions in the code of nvcc 13.0: each warp of a block that attends one split has the first
// before and after its steps; a copy of 16 bytes by the warps that do not multiply the next; and a
// warp that folds a row the others, once, per kFoldStates splits and per split.
constexpr double kSplitInstructions = 1700;
constexpr double kCopyInstructions = 10;
constexpr double kFoldRowInstructions = 340;
constexpr double kFoldStatesInstructions = 100;
constexpr double kFoldSplitInstructions = 23;
// Waits for L2, each of which needs the one before: for lengths and slots of keys, which pass while
// the launch before ends, if the launch begins early; and in the last block of a tile for states
// that are written and blocks that are counted.
constexpr double kAttendWaits = 2;
constexpr double kArriveWaits = 2;

constexpr double kElementBytes = 2;
constexpr double kLineBytes = 128;  // bytes of a wavefront
constexpr double kCopyBytes = 16;
constexpr double kWarpLanes = 32;

double as_double(std::int64_t n) { return static_cast<double>(n); }
std::int64_t divide_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; }

// Products of two tiles of 16 dimensions that a warp has for a head: attend_tiles.cu.
std::int64_t dim_tiles(std::int64_t head_dim, bool has_splits) {
  if (head_dim <= 64) return 4;
  return head_dim <= 80 && !has_splits ? 5 : 8;
}

struct Tiling {
  const AttentionCall& call;
  std::int64_t tile_rows;

  std::int64_t group() const { return call.heads / call.kv_heads; }
  std::int64_t rows() const { return call.new_tokens * group(); }  // per sequence and key head
  std::int64_t tiles() const { return divide_up(rows(), tile_rows); }
  // The keys that the rows of a tile see.
  std::int64_t keys_of(std::int64_t tile) const {
    if (!call.is_causal) return call.keys;
    const std::int64_t last_row = std::min(rows(), (tile + 1) * tile_rows) - 1;
    return call.keys - call.new_tokens + last_row / group() + 1;
  }
  // Steps of all tiles, sequences and key heads.
  std::int64_t count_steps() const {
    return count([](std::int64_t keys) { return divide_up(keys, kStepKeys); });
  }
  std::int64_t count_splits() const { return count(kernels::count_gpu_splits); }
  template <class CountOfKeys>
  std::int64_t count(CountOfKeys of_keys) const {
    std::int64_t sum = 0;
    for (std::int64_t tile = 0; tile < tiles(); ++tile) sum += of_keys(keys_of(tile));
    return sum * call.sequences * call.kv_heads;
  }
};

// As attend() of kernels/cuda/attention.cu chooses.
bool wants_splits(const AttentionCall& call) {
  const std::int64_t splits = kernels::count_gpu_splits(call.keys);
  const std::int64_t rows = call.sequences * call.new_tokens;
  const std::int64_t state_bytes =
      kernels::attention_state_bytes(rows, call.heads, call.head_dim, splits);
  if (splits == 1 || state_bytes > kernels::kMostStateBytes) return false;
  const Tiling few{call, kWarpRows};
  if (few.tiles() * call.sequences * call.kv_heads > Stream::kNumCounters) return false;
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
         std::to_string(dim_tiles(call.head_dim, has_splits)) + ", (TileWork)" +
         std::to_string(work);
}

// Bytes that a block has under way on average. From sm_80 on the copy of a step's keys, and that of
// its values, begins when half of the step whose buffers it takes, `steps_ahead` before, has been
// multiplied; where copies are loads, a warp multiplies when they have come.
double bytes_in_flight(const CudaCard& card, const RecordedKernel& kernel, double step_bytes,
                       double steps_ahead) {
  const double warps = kernel.threads / 32.0;
  const double multiplying = kernel.working_instructions / card.clock_hz;  // a warp's time, seconds
  if (card.architecture < 80) {
    const double loading =
        kLatencySeconds * std::max(1.0, step_bytes / (kernel.bytes_ahead * warps));
    return step_bytes * kLatencySeconds / (loading + multiplying);
  }
  const double of_step = (kLatencySeconds + multiplying / 2) / steps_ahead;
  return step_bytes * kLatencySeconds / std::max(multiplying, of_step);
}

// The states of splits, which the last block of each tile folds; that of the last tile has nothing
// beside it. Its multiprocessor receives them at its share of L2's rate.
void add_fold(const CudaCard& card, const AttentionCall& call, CudaWork& work) {
  const std::int64_t splits = kernels::count_gpu_splits(call.keys);
  const double rounds = as_double(divide_up(splits, kFoldStates));
  const std::int64_t vectors = call.sequences * call.new_tokens * call.heads;
  const double state_bytes = as_double(kernels::attention_state_bytes(
      call.sequences * call.new_tokens, call.heads, call.head_dim, splits));
  work.l2_bytes += state_bytes;
  if (2 * state_bytes > card.l2_bytes / 2) work.dram_bytes += 2 * state_bytes;
  const double of_row = kFoldRowInstructions + rounds * kFoldStatesInstructions +
                        as_double(splits) * kFoldSplitInstructions;
  work.instructions += as_double(vectors) * of_row;
  const Tiling tiling{call, kWarpRows};
  const std::int64_t rows = std::min(tiling.rows(), kWarpRows);
  const double times = as_double(divide_up(rows, kWarps));
  const double waits = kArriveWaits + times * rounds;
  const double of_tile = as_double(rows) / as_double(vectors) * state_bytes;
  const double clocks = std::max(times * of_row, of_tile / card.l2_bytes_per_clock);
  work.wait_seconds += waits * card.l2_latency_s() + clocks / card.clock_hz;
}

// The instructions of blocks of kWarps warps, of which one multiplies. A multiprocessor takes as
// long as the warps that multiply, each on a quarter of it, or as all warps on the quarters that
// they fill.
void count_split_instructions(double blocks, double copies, double resident, CudaWork& work) {
  const double of_one = work.instructions + blocks * kSplitInstructions;
  const double of_all =
      of_one + (kWarps - 1) * blocks * kSplitInstructions + copies * kCopyInstructions;
  const auto quarters = [](double num_warps) { return std::min(num_warps, 4.0); };
  const bool waits_for_one = of_one / quarters(resident) > of_all / quarters(kWarps * resident);
  work.instructions = waits_for_one ? of_one : of_all;
  work.warps = waits_for_one ? resident : kWarps * resident;
}

CudaWork count_tiles(const CudaCard& card, const AttentionCall& call, bool has_splits) {
  const Tiling tiling{call, has_splits ? kWarpRows : kPrefillRows};
  const std::int64_t warps = tiling.tile_rows / kWarpRows;  // that multiply
  const double block_steps = as_double(tiling.count_steps());
  const double blocks = has_splits ? as_double(tiling.count_splits())
                                   : as_double(tiling.tiles() * call.sequences * call.kv_heads);
  const double dims = as_double(dim_tiles(call.head_dim, has_splits));
  const double vectors = as_double(call.sequences * call.new_tokens * call.heads);
  const double q_bytes = 4 * vectors * as_double(call.head_dim);
  const double y_bytes = call.output_bytes / 4 * q_bytes;
  const double step_bytes = 2 * kElementBytes * as_double(kStepKeys * call.head_dim);
  const std::int64_t keys_in_pages =
      call.sequences * (call.keys - call.shared_keys) +
      divide_up(call.sequences, call.sharing_sequences) * call.shared_keys;
  const double kv_bytes =
      2 * kElementBytes * as_double(keys_in_pages * call.kv_heads * call.head_dim);
  CudaWork work{.operation = call.operation, .calls = 1, .launches = 1};
  work.dram_bytes = kv_bytes;
  if (q_bytes + y_bytes > card.l2_bytes / 2) work.dram_bytes += q_bytes + y_bytes;
  // A tile's rows are q and y, or states of splits, each once.
  const double splits = has_splits ? as_double(kernels::count_gpu_splits(call.keys)) : 0;
  work.l2_bytes = block_steps * step_bytes + q_bytes * (1 + splits) + y_bytes;
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
  const double resident = std::min<double>(recorded->blocks, std::ceil(blocks / card.num_sms));
  work.warps = resident * as_double(warps);
  work.bytes_in_flight =
      resident * bytes_in_flight(card, *recorded, step_bytes, has_splits ? kStepsAhead : 1);
  work.wait_seconds = card.dram_latency_s();
  if (!call.begins_early) work.wait_seconds += kAttendWaits * card.l2_latency_s();
  if (has_splits) {
    const double share = (kWarps - 1.0) / kWarps;  // that warps make which do not multiply
    const double copies = share * block_steps * step_bytes / kCopyBytes / kWarpLanes;
    count_split_instructions(blocks, copies, resident, work);
    add_fold(card, call, work);
  }
  return work;
}

}  // namespace

CudaWork count_attention(const CudaCard& card, const AttentionCall& call) {
  return count_tiles(card, call, wants_splits(call));
}

}  // namespace caption::bench
