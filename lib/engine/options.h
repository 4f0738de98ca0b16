// engine/options.h: what an engine is given at construction; const once it stands.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

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
  // Called in step() after a page was computed and before it is written: false keeps it from the
  // disk. Empty: every page is written.
  std::function<bool()> may_store = {};
};

// Attention over less than all of K and V. Both change captions, and have a price (bench shows it).
enum class CompressionMode {
  kNone,
  kTopkMerge,  // after the prompt the most attended tokens stay and the rest are averaged
  kSqueezed,   // rows after the prompt attend to the clusters of vision tokens that matter to them
};

struct CompressionOptions {
  CompressionMode mode = CompressionMode::kNone;
  std::int32_t window_tokens = 32;       // topk-merge: W, rows at the prompt's end that vote
  std::int32_t keep_tokens = 512;        // topk-merge: K >= W
  std::int32_t num_summaries = 32;       // topk-merge: at least 1
  std::int32_t tokens_per_cluster = 16;  // squeezed: of the fixed context, on average
  std::int32_t iterations = 8;           // squeezed: of k-means
  float threshold = 0.01F;               // squeezed: the least share of a cluster that counts
};

struct EngineOptions {
  BatchMode batching = BatchMode::kContinuous;
  std::int32_t max_num_seqs = 16;              // sequences in one step; each beam counts
  std::int32_t max_num_batched_tokens = 2048;  // tokens in one step
  bool chunked_prefill = true;  // split a prompt over several steps; off: whole prompts only
  std::int64_t kv_cache_bytes = 256LL << 20;  // for all pages
  DType kv_dtype = DType::kF32;               // kF32, kBF16, kF16 or kI8
  PrefixCache prefix_cache = PrefixCache::kOff;
  // Everything that decides the bits of a page beside its tokens and pixels: model, formats,
  // arithmetic (config/identity.h).
  Hash128 page_identity = {};
  DiskTier disk = {};  // needs the prefix cache
  // With topk-merge, requests neither find nor leave anything in the prefix cache.
  CompressionOptions compression = {};
};

}  // namespace caption::engine
