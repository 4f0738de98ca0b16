// kv/page_tier.h: where pages may be kept beyond the pool, as the scheduler sees it: slower,
// larger, found by the same content hashes. The engine moves the bytes.
#pragma once

#include "base/hash.h"
#include "kv/page_pool.h"

namespace caption::kv {

// One thread at a time. Neither call throws for what the medium does: a page that cannot be kept or
// read back is simply not there.
class PageTier {
 public:
  virtual ~PageTier() = default;
  // The page's K and V are complete and may be copied away.
  virtual void store(const Hash128& content, PageId page) = 0;
  // Fills the page, which nobody else names; false when the tier does not have the content.
  virtual bool restore(const Hash128& content, PageId page) = 0;
};

}  // namespace caption::kv
