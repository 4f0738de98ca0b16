#include "engine/internal/page_tiers.h"

#include "base/error.h"
#include "kv/page_pool.h"

namespace caption::engine {
namespace {

// The most pages that the sequences of a step take from the pool.
std::int64_t most_pages_of_step(const EngineOptions& options) {
  return kv::pages_for_tokens(options.max_num_batched_tokens) + options.max_num_seqs;
}

}  // namespace

PageTiers::PageTiers(const EngineOptions& options, Stream& stream, const PageMemory& pages) {
  const bool has_cache = options.prefix_cache == PrefixCache::kOn;
  if (options.host_pages_bytes < 0 || (options.host_pages_bytes > 0 && !has_cache)) {
    throw Error(ErrorCode::kUsage,
                "engine: pages in the host's memory need the prefix cache and a positive size");
  }
  if (!options.disk.folder.empty() && !has_cache) {
    throw Error(ErrorCode::kUsage, "engine: pages on disk need the prefix cache; turn it on");
  }
  if (options.host_pages_bytes > 0) {
    host_.emplace(options.host_pages_bytes, stream, pages, most_pages_of_step(options));
  }
  if (!options.disk.folder.empty()) disk_.emplace(options.disk, stream, pages);
}

void PageTiers::store(const Hash128& content, kv::PageId page) {
  if (disk_.has_value()) disk_->store(content, page);
}

void PageTiers::evict(const kv::KnownPage& page) {
  if (host_.has_value()) host_->evict(page);
}

kv::TierHit PageTiers::restore(const Hash128& content, kv::PageId page) {
  if (host_.has_value() && host_->restore(content, page)) return kv::TierHit::kHostMemory;
  if (!disk_.has_value()) return kv::TierHit::kNone;
  order_before_step();  // what the page held may still be on its way to the host
  return disk_->restore(content, page) ? kv::TierHit::kDisk : kv::TierHit::kNone;
}

void PageTiers::order_before_step() {
  if (host_.has_value()) host_->order_before_step();
}

void PageTiers::copy_ahead(const kv::PagePool& pool) {
  if (host_.has_value()) host_->copy_ahead(pool);
}

}  // namespace caption::engine
