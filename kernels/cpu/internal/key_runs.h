// kernels/cpu/internal/key_runs.h: a block of keys and its contiguous pieces in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attend.h"

namespace caption::kernels::cpu {

// `count` keys, at the positions first, first + 1, ... or at the ascending positions listed.
struct KeyBlock {
  std::int64_t first = 0;
  std::int64_t count = 0;
  const std::int32_t* positions = nullptr;

  std::int64_t position(std::int64_t offset) const {
    return positions == nullptr ? first + offset : positions[offset];
  }
  // Returns how many keys from `offset` on have consecutive positions, at most `limit`.
  std::int64_t consecutive(std::int64_t offset, std::int64_t limit) const {
    const std::int64_t most = std::min(limit, count - offset);
    if (positions == nullptr) return most;
    std::int64_t length = 1;
    while (length < most && positions[offset + length] == positions[offset] + length) ++length;
    return length;
  }
};

// Calls work(page, row, offset, count) for each piece of a block's keys that is contiguous in
// memory.
template <class Work>
void for_each_run(const Keys& keys, const KeyBlock& block, const Work& work) {
  for (std::int64_t offset = 0; offset < block.count;) {
    const std::int64_t run = block.position(offset) / keys.run_tokens;
    const std::int64_t row = block.position(offset) % keys.run_tokens;
    const std::int64_t count = block.consecutive(offset, keys.run_tokens - row);
    const std::int64_t page = keys.pages == nullptr ? run : keys.pages[run];
    work(page, row, offset, count);
    offset += count;
  }
}

inline std::int64_t byte_offset(const Keys& keys, std::int64_t page, std::int64_t row) {
  return (page * keys.run_stride + row * keys.token_stride) * keys.element_bytes;
}

inline std::int64_t scale_offset(const Keys& keys, std::int64_t page, std::int64_t row) {
  return (page * keys.run_tokens + row) * keys.scale_stride;
}

struct QueryRows {
  const float* q = nullptr;  // [count, head_dim]
  std::int64_t count = 0;
  std::int64_t head_dim = 0;
};

// scores[m, j] = q[m] . k[j], without any scale; the rows of scores are kBlockKeys elements apart.
inline void dot_keys(const Tier& tier, const Keys& keys, const KeyBlock& block,
                     const QueryRows& queries, float* scores) {
  const Gemm dot = tier.dot[static_cast<int>(keys.element)];
  for_each_run(keys, block, [&](auto page, auto row, auto offset, auto length) {
    dot({.a = queries.q,
         .a_stride = queries.head_dim,
         .b = keys.k + byte_offset(keys, page, row),
         .b_stride = keys.token_stride,
         .c = scores + offset,
         .c_stride = kBlockKeys,
         .m = queries.count,
         .n = length,
         .k = queries.head_dim});
  });
}

// scales[j] = the factor of the score of the block's key j.
inline void load_key_scales(const Keys& keys, const KeyBlock& block, float scale, float* scales) {
  if (keys.k_scales == nullptr) {
    std::fill_n(scales, block.count, scale);
    return;
  }
  for_each_run(keys, block, [&](auto page, auto row, auto offset, auto count) {
    const BF16* from = keys.k_scales + scale_offset(keys, page, row);
    for (std::int64_t j = offset; j < offset + count; ++j, from += keys.scale_stride) {
      scales[j] = scale * to_float(*from);
    }
  });
}

}  // namespace caption::kernels::cpu
