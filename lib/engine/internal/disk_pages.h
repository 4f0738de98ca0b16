// engine/internal/disk_pages.h: the disk tier of the prefix cache: pages as blobs of a
// store::BlobStore.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/hash.h"
#include "engine/internal/page_memory.h"
#include "engine/options.h"
#include "kv/page_pool.h"
#include "store/blob_store.h"

namespace caption::engine {

class DiskPages {
 public:
  // `stream`, of the pages' device, and `pages` are borrowed. Throws Error(kIo) when the folder
  // cannot be used.
  DiskPages(const DiskTier& options, Stream& stream, const PageMemory& pages);

  // Does nothing when the disk has the content or DiskTier::may_store returns false.
  void store(const Hash128& content, kv::PageId page);
  // Returns false when the disk does not have the content. The page is complete on return.
  bool restore(const Hash128& content, kv::PageId page);

 private:
  Stream& stream_;
  const PageMemory& pages_;
  std::vector<std::byte> buffer_;  // bytes of one page
  std::function<bool()> may_store_;
  store::BlobStore store_;
};

}  // namespace caption::engine
