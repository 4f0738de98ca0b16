// Online softmax (arXiv:1805.02867) over blocks of keys at fixed positions.
//
// Each block's keys and values are gathered into panels (kernels/cpu/attention_tier.h) that stay in
// the first- and second-level caches while all rows of the tile use them. With many rows both
// products therefore run at the rate of dense layers; with few rows the gathering dominates, and it
// reads each key and value from memory once.
//
// Layout    two panels at a time: 64 keys, or 64 dimensions of 128 values; 16 KiB of bf16 with
//           head_dim 128.
// Memory    the heads of a tile are adjacent in memory and are processed block by block, so that a
//           page is still cached for the next head; while one head's rows are gathered, the rows
//           of the next head or block are prefetched.
// Numerics  a score is one sum over head_dim in its order; an output is one sum per block over its
//           keys in their order, added to the sums of the blocks before. Each row is computed
//           independently: results do not depend on tiling or batch. Keys that a row does not see
//           have probability 0. With panels of bf16 pairs, queries and probabilities are rounded
//           to bf16.
// Windows   keys before the windows of all rows of the tile are not read. The first block begins at
//           the last multiple of kStepColumns that is not behind the first key of the windows, and
//           ends where its block of kBlockKeys positions ends: every key keeps its column and its
//           place in the sums, whatever the other rows of the tile see.
#include "kernels/cpu/attend.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace caption::kernels::cpu {
namespace {

// Number of panel columns that are gathered at a time.
constexpr std::int64_t kStepColumns = 2 * kPanelColumns;

constexpr std::int64_t padded(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

// The arrays inside the workspace, for the rows of one tile.
struct Workspace {
  std::int64_t query_stride;    // elements between the rows of q, which are f32 or bf16
  std::int64_t product_stride;  // floats between the rows of products
  std::byte* q;                 // [kTileQueries, query_stride]
  std::byte* panels;
  float* scores;           // [kTileQueries, kBlockKeys]
  float* products;         // [kTileQueries, product_stride]
  std::uint16_t* rounded;  // probabilities as bf16 [kTileQueries, kBlockKeys]

  std::size_t size_bytes = 0;

  // With memory == nullptr only size_bytes is computed.
  Workspace(std::byte* memory, std::int64_t head_dim)
      : query_stride(padded(head_dim, kPanelColumns)),
        product_stride(padded(head_dim, kPanelColumns)) {
    const auto take = [&](std::int64_t bytes) {
      std::byte* const taken = memory == nullptr ? nullptr : memory + size_bytes;
      size_bytes += static_cast<std::size_t>(padded(bytes, 64));
      return taken;
    };
    q = take(kTileQueries * query_stride * 4);
    panels = take(std::max(kStepColumns * query_stride, kStepColumns * kBlockKeys) * 4);
    scores = reinterpret_cast<float*>(take(kTileQueries * kBlockKeys * 4));
    products = reinterpret_cast<float*>(take(kTileQueries * product_stride * 4));
    rounded = reinterpret_cast<std::uint16_t*>(take(kTileQueries * kBlockKeys * 2));
  }
};

// The keys of one block; slots[j] is the row of key j, counted in tokens from the start of the
// pages.
struct Block {  // NOLINT(cppcoreguidelines-pro-type-member-init): the slots in use are written
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t slots[kBlockKeys];
};

// Iterates over the blocks of an attention to the keys [first_key, num_keys): kBlockKeys positions
// each, counted from position 0, or kBlockKeys selected positions each when there is a selection.
// The first block begins at the last multiple of kStepColumns that is not greater than first_key;
// its positions before first_key have the slot of first_key.
class Blocks {
 public:
  Blocks(const AttendArgs& args, std::int64_t first_key, std::int64_t num_keys)
      : keys_(args.keys),
        first_key_(first_key),
        end_(std::min(num_keys, args.blocks.end * kBlockKeys)),
        selection_(args.selection),
        next_(std::max(args.blocks.first * kBlockKeys, first_key - first_key % kStepColumns)) {}

  // Returns false when no key is left; `block` is then not valid.
  bool next(Block& block) {
    if (next_ >= end_) return false;
    block.first = next_;
    block.count = 0;
    const std::int64_t most =
        selection_ == nullptr ? kBlockKeys - next_ % kBlockKeys : std::int64_t{kBlockKeys};
    for (; next_ < end_ && block.count < most; ++next_) {
      if (counts(next_)) block.slots[block.count++] = slot(std::max(next_, first_key_));
    }
    return block.count > 0;
  }

 private:
  bool counts(std::int64_t position) const {
    if (selection_ == nullptr || position < selection_->first_token) return true;
    const std::int64_t at = position - selection_->first_token;
    return at >= selection_->num_tokens || selection_->is_selected[selection_->cluster_of[at]];
  }
  std::int64_t slot(std::int64_t position) const {
    if (keys_.pages == nullptr) return position;
    const std::int64_t page = keys_.pages[position / keys_.run_tokens];
    return page * keys_.run_tokens + position % keys_.run_tokens;
  }

  const Keys& keys_;
  std::int64_t first_key_;
  std::int64_t end_;
  const Selection* selection_;
  std::int64_t next_;
};

// The keys [begin, end) of a block.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool empty() const { return begin >= end; }
};

// The attention of one tile of queries over a range of blocks.
class Tile {
 public:
  Tile(const Tier& tier, const AttendArgs& args, const Queries& queries, std::byte* workspace)
      : tier_(tier),
        args_(args),
        queries_(queries),
        packer_(tier.attention.pack[static_cast<int>(args.keys.element)]),
        few_(tier.attention.few_queries[static_cast<int>(args.keys.element)]),
        memory_(workspace, args.head_dim) {}

  void run();

 private:
  void begin_rows();
  void finish_rows();
  void attend_few(const Block& block, const Block* next_block);
  void attend_head(const Block& block, std::int64_t head, const Block* next_block);
  void score_keys(const Block& block, std::int64_t head, const PackArgs& next);
  void weigh_scores(const Block& block, std::int64_t head, std::int64_t first_row);
  void prefetch_scales(const Block& block) const;
  void add_values(const Block& block, std::int64_t head, const PackArgs& next);
  void multiply(const std::byte* a, std::int64_t a_stride, std::int64_t depth,
                std::int64_t num_panels, float* c, std::int64_t c_stride) const;
  // The keys of a block that row m sees.
  KeyRange visible(const Block& block, std::int64_t m) const {
    if (args_.selection != nullptr) return {.end = block.count};
    return {.begin = std::max<std::int64_t>(first_visible(m) - block.first, 0),
            .end = std::clamp<std::int64_t>(queries_.num_visible[m] - block.first, 0, block.count)};
  }
  std::int64_t first_visible(std::int64_t m) const {
    if (args_.window == 0) return 0;
    return std::max<std::int64_t>(queries_.num_visible[m] - args_.window, 0);
  }
  std::int64_t row_bytes() const { return args_.keys.token_stride * args_.keys.element_bytes; }
  std::int64_t head_bytes() const { return args_.head_dim * args_.keys.element_bytes; }

  const Tier& tier_;
  const AttendArgs& args_;
  const Queries& queries_;
  const PagePacker& packer_;
  const FewQueries& few_;
  Workspace memory_;
  float corrections_[kTileQueries] = {};
};

void Tile::begin_rows() {
  const std::int64_t count = queries_.count * queries_.num_heads;
  for (std::int64_t r = 0; r < count; ++r) {
    if (packer_.to_pairs) {
      auto* const to = reinterpret_cast<std::uint16_t*>(memory_.q) + r * memory_.query_stride;
      tier_.to_bf16(queries_.q[r], to, args_.head_dim);
      if (args_.head_dim % 2 != 0) to[args_.head_dim] = 0;
    } else {
      std::copy_n(queries_.q[r], args_.head_dim,
                  reinterpret_cast<float*>(memory_.q) + r * memory_.query_stride);
    }
    if (args_.blocks.first > 0) continue;
    *queries_.state[r] = {.max = -std::numeric_limits<float>::infinity(), .sum = 0};
    std::fill_n(queries_.y[r], args_.head_dim, 0.0F);
  }
}

void Tile::finish_rows() {
  for (std::int64_t r = 0; r < queries_.count * queries_.num_heads; ++r) {
    const std::int64_t blocks = num_blocks(queries_.num_visible[r % queries_.count]);
    if (blocks <= args_.blocks.first || blocks > args_.blocks.end) continue;
    float* const y = queries_.y[r];
    const float sum = queries_.state[r]->sum;
    for (std::int64_t d = 0; d < args_.head_dim; ++d) y[d] /= sum;
  }
}

// c = a * panels^T for the rows of one key head.
void Tile::multiply(const std::byte* a, std::int64_t a_stride, std::int64_t depth,
                    std::int64_t num_panels, float* c, std::int64_t c_stride) const {
  if (packer_.to_pairs) {
    tier_.panel_gemm({.a = reinterpret_cast<const std::uint16_t*>(a),
                      .a_stride = a_stride,
                      .panels = reinterpret_cast<const std::uint16_t*>(memory_.panels),
                      .num_pairs = (depth + 1) / 2,
                      .num_panels = num_panels,
                      .c = c,
                      .c_stride = c_stride,
                      .m = queries_.count});
    return;
  }
  tier_.attention.float_panel_gemm({.a = reinterpret_cast<const float*>(a),
                                    .a_stride = a_stride,
                                    .panels = reinterpret_cast<const float*>(memory_.panels),
                                    .depth = depth,
                                    .num_panels = num_panels,
                                    .c = c,
                                    .c_stride = c_stride,
                                    .m = queries_.count});
}

// scores[m, j] = q[m] . k[j], two panels of keys at a time.
void Tile::score_keys(const Block& block, std::int64_t head, const PackArgs& next) {
  const std::int64_t element_bytes = packer_.to_pairs ? 2 : 4;
  const std::byte* const q =
      memory_.q + head * queries_.count * memory_.query_stride * element_bytes;
  for (std::int64_t j = 0; j < block.count; j += kStepColumns) {
    const std::int64_t count = std::min(kStepColumns, block.count - j);
    packer_.keys({.base = args_.keys.k + head * head_bytes(),
                  .row_bytes = row_bytes(),
                  .slots = block.slots + j,
                  .count = count,
                  .dim = args_.head_dim,
                  .panels = memory_.panels,
                  .next_base = next.base,
                  .next_slots = next.slots == nullptr ? nullptr : next.slots + j});
    multiply(q, memory_.query_stride, args_.head_dim, (count + kPanelColumns - 1) / kPanelColumns,
             memory_.scores + j, kBlockKeys);
  }
}

// A token's scales of all heads are adjacent, so one prefetch per token fetches them all.
void Tile::prefetch_scales(const Block& block) const {
  const Keys& keys = args_.keys;
  if (keys.k_scales == nullptr) return;
  for (std::int64_t j = 0; j < block.count; ++j) {
    __builtin_prefetch(keys.k_scales + block.slots[j] * keys.scale_stride, 0, 2);
    __builtin_prefetch(keys.v_scales + block.slots[j] * keys.scale_stride, 0, 2);
  }
}

// Turns a head's scores of a block, in the rows from `first_row` on, into probabilities that are
// not yet normalised, and sets corrections_, the factors by which the sums of earlier blocks must
// be multiplied.
void Tile::weigh_scores(const Block& block, std::int64_t head, std::int64_t first_row) {
  const Keys& keys = args_.keys;
  float factors[kBlockKeys];
  float v_scales[kBlockKeys];
  for (std::int64_t j = 0; j < block.count; ++j) {
    factors[j] = args_.scale;
    if (keys.k_scales == nullptr) continue;
    const std::int64_t at = block.slots[j] * keys.scale_stride + head;
    factors[j] *= to_float(keys.k_scales[at]);
    v_scales[j] = to_float(keys.v_scales[at]);
  }
  for (std::int64_t m = 0; m < queries_.count; ++m) {
    const std::int64_t row = first_row + m;
    float* const scores = memory_.scores + row * kBlockKeys;
    float& correction = corrections_[row];
    RowState& state = *queries_.state[head * queries_.count + m];
    const KeyRange seen = visible(block, m);
    correction = 1;
    if (seen.empty()) {
      std::fill_n(scores, block.count, 0.0F);
    } else {
      std::fill_n(scores, seen.begin, 0.0F);
      const SoftmaxResult result = tier_.attention.softmax(
          {.scores = scores + seen.begin,
           .factors = factors + seen.begin,
           .v_scales = keys.v_scales == nullptr ? nullptr : v_scales + seen.begin,
           .num_visible = seen.end - seen.begin,
           .count = block.count - seen.begin,
           .max = state.max});
      // exp(-infinity) = 0 for the first block: there is nothing to correct.
      if (result.max > state.max) correction = std::exp(state.max - result.max);
      state = {.max = result.max, .sum = state.sum * correction + result.sum};
    }
    if (!packer_.to_pairs) continue;
    std::uint16_t* const rounded = memory_.rounded + row * kBlockKeys;
    tier_.to_bf16(scores, rounded, block.count);
    if (block.count % 2 != 0) rounded[block.count] = 0;
  }
}

// y = y * correction + probabilities * values, two panels of dimensions at a time.
void Tile::add_values(const Block& block, std::int64_t head, const PackArgs& next) {
  const std::byte* const probabilities = packer_.to_pairs
                                             ? reinterpret_cast<const std::byte*>(memory_.rounded)
                                             : reinterpret_cast<const std::byte*>(memory_.scores);
  for (std::int64_t d = 0; d < args_.head_dim; d += kStepColumns) {
    const std::int64_t offset = d * args_.keys.element_bytes;
    const std::int64_t dim = std::min(kStepColumns, args_.head_dim - d);
    packer_.values({.base = args_.keys.v + head * head_bytes() + offset,
                    .row_bytes = row_bytes(),
                    .slots = block.slots,
                    .count = block.count,
                    .dim = dim,
                    .panels = memory_.panels,
                    .next_base = static_cast<const std::byte*>(next.base) + offset,
                    .next_slots = next.slots});
    multiply(probabilities, kBlockKeys, block.count, (dim + kPanelColumns - 1) / kPanelColumns,
             memory_.products + d, memory_.product_stride);
  }
  for (std::int64_t m = 0; m < queries_.count; ++m) {
    if (visible(block, m).empty()) continue;
    tier_.attention.scale_add(queries_.y[head * queries_.count + m], corrections_[m],
                              memory_.products + m * memory_.product_stride, args_.head_dim);
  }
}

// Prefetches for the next head of this block or, after the last head, for head 0 of the next block.
void Tile::attend_head(const Block& block, std::int64_t head, const Block* next_block) {
  const bool is_last_head = head + 1 == queries_.num_heads;
  const std::int64_t next_head = is_last_head ? 0 : head + 1;
  const Block* const source = is_last_head ? next_block : &block;
  // A next block shorter than this one is not prefetched: its slots would be read past their end.
  const bool has_next = source != nullptr && source->count >= block.count;
  PackArgs next;
  if (has_next) next.slots = source->slots;
  next.base = args_.keys.k + next_head * head_bytes();
  if (head == 0 && next_block != nullptr) prefetch_scales(*next_block);
  score_keys(block, head, next);
  weigh_scores(block, head, 0);
  next.base = args_.keys.v + next_head * head_bytes();
  add_values(block, head, next);
}

// All heads of the block, without panels.
void Tile::attend_few(const Block& block, const Block* next_block) {
  if (next_block != nullptr) prefetch_scales(*next_block);
  FewQueriesArgs args{.base = args_.keys.k,
                      .row_bytes = row_bytes(),
                      .slots = block.slots,
                      .count = block.count,
                      .num_heads = queries_.num_heads,
                      .dim = args_.head_dim,
                      .a = memory_.q,
                      .a_stride = memory_.query_stride,
                      .c = memory_.scores,
                      .c_stride = kBlockKeys,
                      .m = queries_.count,
                      .next_base = args_.keys.v,
                      .next_slots = block.slots,
                      .next_count = block.count};
  few_.score(args);
  for (std::int64_t head = 0; head < queries_.num_heads; ++head) {
    weigh_scores(block, head, head * queries_.count);
  }
  args.base = args_.keys.v;
  args.a = memory_.scores;
  if (packer_.to_pairs) args.a = memory_.rounded;
  args.a_stride = kBlockKeys;
  args.c = memory_.products;
  args.c_stride = memory_.product_stride;
  args.next_base = args_.keys.k;
  args.next_slots = next_block == nullptr ? nullptr : next_block->slots;
  args.next_count = next_block == nullptr ? 0 : next_block->count;
  few_.weigh(args);
  for (std::int64_t r = 0; r < queries_.num_heads * queries_.count; ++r) {
    if (visible(block, r % queries_.count).empty()) continue;
    tier_.attention.scale_add(queries_.y[r], corrections_[r],
                              memory_.products + r * memory_.product_stride, args_.head_dim);
  }
}

void Tile::run() {
  begin_rows();
  const auto [least, most] =
      std::minmax_element(queries_.num_visible, queries_.num_visible + queries_.count);
  Blocks blocks(args_, first_visible(least - queries_.num_visible), *most);
  Block two[2];  // NOLINT(cppcoreguidelines-pro-type-member-init)
  int current = 0;
  for (bool has_block = blocks.next(two[0]); has_block; current = 1 - current) {
    has_block = blocks.next(two[1 - current]);
    const Block* const next_block = has_block ? &two[1 - current] : nullptr;
    if (few_.score != nullptr && queries_.count <= kFewQueries) {
      attend_few(two[current], next_block);
      continue;
    }
    for (std::int64_t head = 0; head < queries_.num_heads; ++head) {
      attend_head(two[current], head, next_block);
    }
  }
  finish_rows();
}

}  // namespace

std::size_t attend_workspace_bytes(std::int64_t head_dim) {
  return Workspace(nullptr, head_dim).size_bytes;
}

void attend(const Tier& tier, const AttendArgs& args, const Queries& queries,
            std::byte* workspace) {
  Tile(tier, args, queries, workspace).run();
}

}  // namespace caption::kernels::cpu
