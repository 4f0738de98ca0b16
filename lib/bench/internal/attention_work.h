// bench/internal/attention_work.h: what a call of attention on tensor cores costs a card
// (kernels/cuda/attention.cu, attend_tiles.cuh).
#pragma once

#include <cstdint>
#include <string>

#include "bench/cuda_prediction.h"

namespace caption::bench {

// Queries are f32, keys and values have 16 bits.
struct AttentionCall {
  std::string operation = {};  // as a profile names it
  std::int64_t sequences = 1;  // or frames
  std::int64_t new_tokens = 1;
  std::int64_t keys = 1;  // that a sequence's last token sees
  // The first shared_keys of so many sequences each are in the same pages. Their blocks follow one
  // another, so that all but the first find them in L2.
  std::int64_t shared_keys = 0;
  std::int64_t sharing_sequences = 1;
  bool is_causal = true;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 1;
  double output_bytes = 4;    // bytes of a number of the output
  bool begins_early = false;  // kernels/cuda/dependent_launch.cuh
};

// The launch of AttendTiles. A kernel that the record lacks leaves bytes and products alone, and no
// kernel's name.
CudaWork count_attention(const CudaCard& card, const AttentionCall& call);

}  // namespace caption::bench
