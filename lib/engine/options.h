// engine/options.h: what an engine is given at construction; const once it stands.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/hash.h"
#include "tensor/dtype.h"

namespace caption::engine {

enum class BatchMode {
  kContinuous,  // finished requests leave and waiting ones enter at every step
  kStatic,      // a batch runs until all its requests are finished
};

enum class PrefixCache {
  kOff,
  kOn,  // pages of equal prefixes are computed once and kept, least recently used out first
};

// Pages on disk: what is computed here is found again by the next run (kv/disk_store.h).
struct DiskTier {
  std::filesystem::path folder = {};  // empty: none
  std::int64_t max_bytes = 16LL << 30;
};

struct EngineOptions {
  BatchMode batching = BatchMode::kContinuous;
  std::int32_t max_num_seqs = 16;              // sequences in one step; each beam counts
  std::int32_t max_num_batched_tokens = 2048;  // tokens in one step
  bool chunked_prefill = true;  // split a prompt over several steps; off: whole prompts only
  std::int64_t kv_cache_bytes = 256LL << 20;  // for all pages
  DType kv_dtype = DType::kF32;               // kF32, kBF16, kF16 or kI8
  PrefixCache prefix_cache = PrefixCache::kOff;
  // Of model and adapter; the engine adds what else decides the bits of a page.
  Hash128 model_identity = {};
  DiskTier disk = {};  // needs the prefix cache
};

}  // namespace caption::engine
