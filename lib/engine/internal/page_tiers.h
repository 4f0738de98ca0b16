// engine/internal/page_tiers.h: the storage beyond an engine's pages: the host's memory for evicted
// ones, then the disk for all complete ones.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/internal/disk_pages.h"
#include "engine/internal/host_pages.h"
#include "engine/internal/page_memory.h"
#include "engine/options.h"
#include "kv/page_tier.h"

namespace caption::engine {

class PageTiers final : public kv::PageTier {
 public:
  // `stream`, on which the steps run, and `pages` are borrowed. Throws Error(kUsage) for a tier
  // without the prefix cache; otherwise as HostPages and DiskPages.
  PageTiers(const EngineOptions& options, Stream& stream, const PageMemory& pages);

  void store(const Hash128& content, kv::PageId page) override;
  void evict(const kv::KnownPage& page) override;
  kv::TierHit restore(const Hash128& content, kv::PageId page) override;

  bool empty() const { return !host_.has_value() && !disk_.has_value(); }
  // HostPages::order_before_step() and copy_ahead(), if there is a host tier.
  void order_before_step();
  void copy_ahead(const kv::PagePool& pool);
  std::int64_t num_stored_in_memory() const { return host_.has_value() ? host_->num_stored() : 0; }

 private:
  std::optional<HostPages> host_;
  std::optional<DiskPages> disk_;
};

}  // namespace caption::engine
