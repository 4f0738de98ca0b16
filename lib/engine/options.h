// engine/options.h: the options of an engine; constant after its construction.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "base/hash.h"
#include "drafts/draft_source.h"
#include "scheduler/options.h"
#include "scheduler/step_limits.h"
#include "tensor/dtype.h"

namespace caption::engine {

using scheduler::BatchMode;

class SelfDraft;

enum class PrefixCache {
  kOff,
  kOn,  // equal prefixes are computed once; the least recently used are evicted
};

// The disk tier: pages computed in this run can be found by later runs (store/blob_store.h).
struct DiskTier {
  std::filesystem::path folder = {};  // empty: no disk tier
  std::int64_t max_bytes = 16LL << 30;
  // Called in step() for each computed page before it is written; false prevents writing. Empty:
  // every page is written.
  std::function<bool()> may_store = {};
};

// Attention over fewer keys and values. Both modes change captions and cost quality (see bench).
enum class CompressionMode {
  kNone,
  kTopkMerge,  // after the prompt the most attended tokens are kept, the rest averaged
  kSqueezed,   // rows after the prompt attend only to relevant clusters of vision tokens
};

struct CompressionOptions {
  CompressionMode mode = CompressionMode::kNone;
  std::int32_t window_tokens = 32;       // topk-merge: W, the last prompt rows, which select tokens
  std::int32_t keep_tokens = 512;        // topk-merge: K >= W
  std::int32_t num_summaries = 32;       // topk-merge: at least 1
  std::int32_t tokens_per_cluster = 16;  // squeezed: average tokens per cluster
  std::int32_t iterations = 8;           // squeezed: iterations of k-means
  float threshold = 0.01F;  // squeezed: smallest share of attention that selects a cluster
};

struct EngineOptions {
  BatchMode batching = BatchMode::kContinuous;
  // Sequences in one step; each beam counts.
  std::int32_t max_num_seqs = scheduler::kDefaultMaxSeqs;
  // Tokens in one step.
  std::int32_t max_num_batched_tokens = scheduler::kDefaultMaxBatchedTokens;
  bool chunked_prefill = true;  // split prompts over several steps; off: whole prompts only
  std::int64_t kv_cache_bytes = 256LL << 20;  // memory of all pages
  DType kv_dtype = DType::kF32;               // kF32, kBF16, kF16 or kI8
  PrefixCache prefix_cache = PrefixCache::kOff;
  // Identifies everything besides tokens and pixels that decides the bits of a page: model,
  // formats, arithmetic (config/identity.h).
  Hash128 page_identity = {};
  // Pinned memory of the host that keeps evicted pages of the prefix cache, allocated at once; 0:
  // none. Requires the prefix cache, and at least the bytes of a page. On the CPU, where pages are
  // in the same memory, a larger kv_cache_bytes serves better.
  std::int64_t host_pages_bytes = 0;
  DiskTier disk = {};  // requires the prefix cache
  // Speculative decoding (drafts/draft_source.h): borrowed, or null. At most max_drafts tokens are
  // computed per sequence and step besides the known ones.
  drafts::DraftSource* draft_source = nullptr;
  std::int32_t max_drafts = 0;
  // Drafts of a sequence in the step that ends its prompt: a caption that may be copied whole
  // (DraftSource::propose_after_prompts()). Logits are reserved for so many more in a step.
  std::int32_t max_copied_tokens = 0;
  // The engine's own decoder as the draft source's model (engine/self_draft.h): borrowed, or null.
  // It has num_guess_pages() pages besides kv_cache_bytes. Not with compressed attention.
  SelfDraft* self_draft = nullptr;
  // With topk-merge, requests neither use nor fill the prefix cache.
  CompressionOptions compression = {};
};

inline scheduler::StepLimits step_limits(const EngineOptions& options) {
  return {.max_num_seqs = options.max_num_seqs,
          .max_num_batched_tokens = options.max_num_batched_tokens,
          .max_drafts = options.max_drafts,
          .max_copied_tokens = options.max_copied_tokens};
}

}  // namespace caption::engine
