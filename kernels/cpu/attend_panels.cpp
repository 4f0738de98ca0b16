// Online softmax (arXiv:1805.02867) of panels of queries over blocks of keys.
//
// A block of keys and values is packed once and used by all panels of the call; the panels' queries
// and outputs stay in the second-level cache, a panel's scores of a block in the first-level cache.
//
// Numerics  the blocks depend on the number of keys only, so neither the batch nor the distribution
//           of queries over calls changes a bit. A score is one sum over head_dim; an output is one
//           sum over the keys in their order, rescaled where a block has a new maximum. Queries and
//           probabilities are rounded to bf16, which is a relative error of a probability of at
//           most 2^-8 - 2^-16; exp2() adds 2^-18.1 to it and to the sum that divides, together less
//           than 2^-17, so that both remain below 2^-8.
// Not done  prefetching the next block and call: no faster. Alternating the products of one panel
//           with the softmax of another: no faster, since on the CPU measured products of tiles do
//           not overlap with arithmetic on vectors.
#include "kernels/cpu/attend_panels.h"

#include <algorithm>
#include <limits>

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t padded(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

// The bytes of the second-level cache that the queries and outputs of a call may take: half of the
// smallest among CPUs with AVX512-BF16, 1 MiB.
constexpr std::int64_t kQueryBytes = std::int64_t{512} << 10;

struct PanelWorkspace {
  std::int64_t depth;  // head_dim, padded
  std::int64_t rows;   // head_dim, padded: rows of the values and outputs
  std::int64_t max_panels;
  std::uint16_t* queries;        // [max_panels, depth / 2, 32, 2]
  std::uint16_t* keys;           // [kPanelBlockKeys, depth]
  std::uint16_t* values;         // [rows, kPanelValueStride]
  std::uint16_t* probabilities;  // [kPanelBlockKeys / 2, 32, 2]
  float* scores;                 // [kPanelBlockKeys, 32]
  float* outputs;                // [max_panels, rows, 32]
  ColumnState* states;           // [max_panels]

  std::size_t size_bytes = 0;

  // With memory == nullptr only size_bytes is computed.
  PanelWorkspace(std::byte* memory, const Tier& tier, std::int64_t head_dim)
      : depth(padded(head_dim, tier.attention.query_panels.depth_multiple)),
        rows(padded(head_dim, kPanelRowMultiple)),
        max_panels(
            std::max<std::int64_t>(1, kQueryBytes / (kPanelQueries * (2 * depth + 4 * rows)))) {
    const auto take = [&](std::int64_t bytes) {
      std::byte* const taken = memory == nullptr ? nullptr : memory + size_bytes;
      size_bytes += static_cast<std::size_t>(padded(bytes, 64));
      return taken;
    };
    const auto take_halves = [&](std::int64_t count) {
      return reinterpret_cast<std::uint16_t*>(take(2 * count));
    };
    const auto take_floats = [&](std::int64_t count) {
      return reinterpret_cast<float*>(take(4 * count));
    };
    queries = take_halves(max_panels * depth * kPanelQueries);
    keys = take_halves(kPanelBlockKeys * depth);
    values = take_halves(rows * kPanelValueStride);
    probabilities = take_halves(kPanelBlockKeys * kPanelQueries);
    scores = take_floats(kPanelBlockKeys * kPanelQueries);
    outputs = take_floats(max_panels * rows * kPanelQueries);
    states = reinterpret_cast<ColumnState*>(
        take(max_panels * static_cast<std::int64_t>(sizeof(ColumnState))));
  }
};

// Keys [first, first + count).
struct KeyBlock {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Blocks have nearly equal numbers of keys, multiples of 32 except in the last.
KeyBlock block_at(std::int64_t first, std::int64_t num_keys) {
  const std::int64_t num_blocks = (num_keys + kPanelBlockKeys - 1) / kPanelBlockKeys;
  const std::int64_t most = padded((num_keys + num_blocks - 1) / num_blocks, 32);
  return {.first = first, .count = std::min(num_keys - first, most)};
}

class PanelTask {
 public:
  PanelTask(const Tier& tier, const PanelAttention& args, std::byte* memory)
      : panels_(tier.attention.query_panels), args_(args), memory_(memory, tier, args.head_dim) {}

  void run();

 private:
  void pack_queries(std::int64_t panel);
  void pack_block(const KeyBlock& block);
  void write_outputs(std::int64_t panel);

  std::int64_t num_queries(std::int64_t panel) const {
    return std::min(kPanelQueries, args_.num_queries - panel * kPanelQueries);
  }

  const QueryPanelTier& panels_;
  const PanelAttention& args_;
  PanelWorkspace memory_;
};

void PanelTask::pack_queries(std::int64_t panel) {
  panels_.pack_queries({.q = args_.q + panel * kPanelQueries * args_.q_stride,
                        .q_stride = args_.q_stride,
                        .count = num_queries(panel),
                        .dim = args_.head_dim,
                        .depth = memory_.depth,
                        .panel = memory_.queries + panel * memory_.depth * kPanelQueries});
  ColumnState& state = memory_.states[panel];
  std::fill_n(state.reference, kPanelQueries, -std::numeric_limits<float>::infinity());
  std::fill_n(state.sum, kPanelQueries, 0.0F);
}

void PanelTask::pack_block(const KeyBlock& block) {
  const auto rows = [&](const std::uint16_t* from, std::uint16_t* to) {
    return PackRowsArgs{.from = from + block.first * args_.kv_stride,
                        .from_stride = args_.kv_stride,
                        .count = block.count,
                        .dim = args_.head_dim,
                        .depth = memory_.depth,
                        .to = to};
  };
  panels_.pack_keys(rows(args_.k, memory_.keys));
  panels_.pack_values(rows(args_.v, memory_.values));
}

void PanelTask::write_outputs(std::int64_t panel) {
  panels_.write_outputs({.outputs = memory_.outputs + panel * memory_.rows * kPanelQueries,
                         .sums = memory_.states[panel].sum,
                         .count = num_queries(panel),
                         .dim = args_.head_dim,
                         .y = args_.y + panel * kPanelQueries * args_.y_stride,
                         .y_stride = args_.y_stride});
}

void PanelTask::run() {
  const std::int64_t num_panels = (args_.num_queries + kPanelQueries - 1) / kPanelQueries;
  for (std::int64_t panel = 0; panel < num_panels; ++panel) pack_queries(panel);
  for (std::int64_t first = 0; first < args_.num_keys;) {
    const KeyBlock block = block_at(first, args_.num_keys);
    pack_block(block);
    panels_.attend_block({.keys = memory_.keys,
                          .values = memory_.values,
                          .count = block.count,
                          .dim = args_.head_dim,
                          .depth = memory_.depth,
                          .scale = args_.scale,
                          .is_first = first == 0,
                          .num_panels = num_panels,
                          .queries = memory_.queries,
                          .states = memory_.states,
                          .outputs = memory_.outputs,
                          .scores = memory_.scores,
                          .probabilities = memory_.probabilities});
    first += block.count;
  }
  for (std::int64_t panel = 0; panel < num_panels; ++panel) write_outputs(panel);
}

}  // namespace

std::int64_t max_query_panels(const Tier& tier, std::int64_t head_dim) {
  return PanelWorkspace(nullptr, tier, head_dim).max_panels;
}

std::size_t attend_panels_workspace_bytes(const Tier& tier, std::int64_t head_dim) {
  return PanelWorkspace(nullptr, tier, head_dim).size_bytes;
}

void attend_panels(const Tier& tier, const PanelAttention& args, std::byte* workspace) {
  PanelTask(tier, args, workspace).run();
}

}  // namespace caption::kernels::cpu
