// engine/options.h: what an engine is given at construction; const once it stands.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace caption::engine {

enum class BatchMode {
  kContinuous,  // finished requests leave and waiting ones enter at every step
  kStatic,      // a batch runs until all its requests are finished
};

struct EngineOptions {
  BatchMode batching = BatchMode::kContinuous;
  std::int32_t max_num_seqs = 16;              // sequences in one step
  std::int32_t max_num_batched_tokens = 2048;  // tokens in one step
  bool chunked_prefill = true;  // split a prompt over several steps; off: whole prompts only
  std::int64_t kv_cache_bytes = 256LL << 20;  // for all pages
  DType kv_dtype = DType::kF32;               // kF32 or kBF16
};

}  // namespace caption::engine
