// quantise/blocks.h: the 4-bit numbers of bitsandbytes (QLoRA, arXiv:2305.14314).
//
// The numbers of a matrix, row by row, make blocks of 64, regardless of where rows end; the last
// one may be shorter.
//   absmax = max|w| of a block; code = the number of midpoints below w * (1 / absmax), of the last,
//            shorter block below w / absmax; value = table[code] * absmax
// A number that equals a midpoint gets the lower value. In f32.
//
// Double quantisation: offset = mean(absmax); the differences d = absmax - offset make blocks of
// 256, of which each is rounded in the same way to the 256 values of weights::dynamic_codebook():
//   absmax = map[code] * nested_absmax + offset
//
// Source: bitsandbytes 0.50 (backends/default/ops.py, quantize_4bit and quantize_blockwise, the
// implementation for all devices; functional.py, quantize_4bit). Codes and
// absmax have its bits (tests/golden/quantise). The mean is summed in f64 here, and in an order
// that depends on the machine there. The library's own kernel for CPUs looks the codes of d up in a
// table of 65536 entries and gives some of them a neighbouring value.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backend/thread_pool.h"
#include "tensor/tensor.h"

namespace caption::quantise {

inline constexpr std::int64_t kBlock = 64;
inline constexpr std::int64_t kNestedBlock = 256;

enum class BlockTable { kNf4, kFp4 };
// The values of the 16 codes.
const std::array<float, 16>& table_of(BlockTable table);

struct BlockCodes {
  std::vector<std::uint8_t> codes;  // [ceil(N * K / 2)], the earlier number in the high half
  std::vector<float> absmax;        // [ceil(N * K / 64)]
};
// matrix [N, K] f32, bf16 or f16, dense. Throws Error(kBadModel) when a weight is not finite.
BlockCodes round_to_blocks(ThreadPool& pool, ConstView matrix, BlockTable table);

struct NestedScales {
  std::vector<std::uint8_t> codes;  // one for each absmax
  std::vector<float> absmax;        // [ceil(absmax / 256)]
  float offset = 0;
};
// Returns the offset that double quantisation takes.
float mean_of(const std::vector<float>& absmax);
// Rounds scales to 8 bits; `offset` is any number near their mean.
NestedScales nest_scales(const std::vector<float>& absmax, float offset);

}  // namespace caption::quantise
