// kv/page_tier.h: the scheduler's interface to storage beyond the pool, which is slower and larger
// and uses the same content hashes. The engine implements it and copies the bytes.
#pragma once

#include "base/hash.h"
#include "kv/page_pool.h"

namespace caption::kv {

// Where a tier had a page.
enum class TierHit { kNone, kHostMemory, kDisk };

// Used by one thread at a time. No function throws for a failure of the medium: a page that cannot
// be stored or read back is a miss.
class PageTier {
 public:
  virtual ~PageTier() = default;
  // Tells the tier that the page's K and V are complete, so that it may copy them.
  virtual void store(const Hash128& content, PageId page) = 0;
  // Tells the tier that the pool forgets this complete page, whose memory is written next. Must not
  // call the pool.
  virtual void evict(const KnownPage& page) = 0;
  // Fills the page, which no table but the caller's references, if the tier has the content.
  virtual TierHit restore(const Hash128& content, PageId page) = 0;
};

}  // namespace caption::kv
