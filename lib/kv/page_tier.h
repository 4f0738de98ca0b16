// kv/page_tier.h: the scheduler's interface to storage beyond the pool, which is slower and larger
// and uses the same content hashes. The engine implements it and copies the bytes.
#pragma once

#include "base/hash.h"
#include "kv/page_pool.h"

namespace caption::kv {

// Used by one thread at a time. Neither function throws for a failure of the medium: a page that
// cannot be stored or read back is a miss.
class PageTier {
 public:
  virtual ~PageTier() = default;
  // Tells the tier that the page's K and V are complete, so that it may copy them.
  virtual void store(const Hash128& content, PageId page) = 0;
  // Fills the page, which no table references; returns false when the tier does not have the
  // content.
  virtual bool restore(const Hash128& content, PageId page) = 0;
};

}  // namespace caption::kv
